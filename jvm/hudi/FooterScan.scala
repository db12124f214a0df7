package org.apache.spark.sql.lakeshift.hudi

import java.util.OptionalLong

import org.apache.spark.sql.catalyst.{FileSourceOptions, InternalRow}
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.execution.PartitionedFileUtil
import org.apache.spark.sql.execution.datasources.{FilePartition, PartitionedFile}
import org.apache.spark.sql.execution.datasources.parquet.ParquetOptions
import org.apache.spark.sql.execution.datasources.v2.FilePartitionReaderFactory
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.SerializableConfiguration

/** Answers COUNT, MIN and MAX from the footers of the selected files: one row a file, and no data page read. */
final class FooterScan(tableName: String, selection: FileSelection, aggregate: FooterAggregate)
    extends Scan with Batch with SupportsReportStatistics {

  private val relation = selection.relation
  private val spark = relation.sparkSession

  override def readSchema(): StructType = aggregate.schema
  override def toBatch: Batch = this
  override def columnarSupportMode(): Scan.ColumnarSupportMode = Scan.ColumnarSupportMode.UNSUPPORTED

  override def description(): String =
    s"HudiFooterScan aggregates: [${aggregate.values.mkString(", ")}], " +
      s"partition filters: [${selection.partitionFilters.mkString(", ")}]"

  override def estimateStatistics(): Statistics = new Statistics {
    override def sizeInBytes(): OptionalLong = OptionalLong.of(math.max(1, selection.files.size) * readSchema().defaultSize)
    override def numRows(): OptionalLong = OptionalLong.of(selection.files.size)
  }

  /** Footers cost about the same each, so files are dealt out evenly to the cores there are. */
  override def planInputPartitions(): Array[InputPartition] = {
    val tasks = math.max(1, spark.sparkContext.defaultParallelism)
    val perTask = math.max(1, math.ceil(selection.files.size.toDouble / tasks).toInt)
    selection.files.grouped(perTask).zipWithIndex.map { case (files, i) =>
      FilePartition(i, files.map(f => PartitionedFileUtil.getPartitionedFile(f.file, f.file.getPath, InternalRow.empty)).toArray)
    }.toArray
  }

  override def createReaderFactory(): PartitionReaderFactory = FooterReaderFactory(
    aggregate,
    spark.sparkContext.broadcast(new SerializableConfiguration(spark.sessionState.newHadoopConfWithOptions(relation.options))),
    new ParquetOptions(relation.options, spark.sessionState.conf).datetimeRebaseModeInRead,
    new FileSourceOptions(CaseInsensitiveMap(relation.options)))

  override def supportedCustomMetrics(): Array[CustomMetric] = ScanMetrics.all
  override def reportDriverMetrics(): Array[CustomTaskMetric] = ScanMetrics.of(selection.files)

  private lazy val key = ScanKey(selection, readSchema(), None)
  override def equals(other: Any): Boolean = other match {
    case scan: FooterScan => scan.key == this.key && scan.footerValues == this.footerValues
    case _ => false
  }
  override def hashCode(): Int = key.hashCode()
  private def footerValues: Seq[FooterValue] = aggregate.values
}

final case class FooterReaderFactory(
    aggregate: FooterAggregate,
    conf: org.apache.spark.broadcast.Broadcast[SerializableConfiguration],
    datesRebasedBy: String,
    override protected val options: FileSourceOptions)
    extends FilePartitionReaderFactory {

  override def buildReader(file: PartitionedFile): PartitionReader[InternalRow] = new PartitionReader[InternalRow] {
    private var answer: Option[InternalRow] = None
    private var given = false

    override def next(): Boolean = !given && {
      answer = Some(new FooterReader(file.toPath, conf.value.value, datesRebasedBy).row(aggregate.values))
      given = true
      true
    }
    override def get(): InternalRow = answer.get
    override def close(): Unit = ()
  }
}
