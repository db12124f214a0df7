package org.apache.spark.sql.lakeshift.hudi

import java.util.OptionalLong

import org.apache.hadoop.fs.FileStatus

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.{FileSourceOptions, InternalRow}
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.execution.PartitionedFileUtil
import org.apache.spark.sql.execution.datasources.{FilePartition, PartitionedFile}
import org.apache.spark.sql.execution.datasources.v2.FilePartitionReaderFactory
import org.apache.spark.sql.types.StructType

/**
 * Answers COUNT, MIN and MAX from the footers of the selected files in tasks, each of which gives one row: for more
 * files than the driver should read, and for files without statistics, whose pages a task reads.
 */
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
    override def sizeInBytes(): OptionalLong = OptionalLong.of(selection.files.size.toLong * readSchema().defaultSize)
    override def numRows(): OptionalLong = OptionalLong.of(selection.files.size)
  }

  /** Footers cost about the same each, so files are dealt out evenly to the cores, in tasks that can be repeated. */
  override def planInputPartitions(): Array[InputPartition] = {
    val cores = math.max(1, spark.sparkContext.defaultParallelism)
    val perTask = math.min(1000, math.max(1, math.ceil(selection.files.size.toDouble / cores).toInt))
    selection.files.grouped(perTask).zipWithIndex.map { case (files, i) =>
      FilePartition(i, files.map(f => PartitionedFileUtil.getPartitionedFile(f.file, f.file.getPath, InternalRow.empty)).toArray)
    }.toArray
  }

  override def createReaderFactory(): PartitionReaderFactory = FooterReaderFactory(
    aggregate,
    spark.sparkContext.broadcast(FooterSource.of(relation)),
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

/** Spark's own factory around the footers of a task skips missing or corrupt files when told to. */
final case class FooterReaderFactory(
    aggregate: FooterAggregate,
    source: Broadcast[FooterSource],
    override protected val options: FileSourceOptions)
    extends FilePartitionReaderFactory {

  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = {
    val rowPerFile = super.createReader(partition)
    try {
      var sum = aggregate.ofNothing
      while (rowPerFile.next()) sum = aggregate.add(sum, rowPerFile.get())
      new OneRow(sum)
    } finally rowPerFile.close()
  }

  /** Reads at once: a missing file is only skipped while its reader is built. */
  override def buildReader(file: PartitionedFile): PartitionReader[InternalRow] = {
    val status = new FileStatus(file.fileSize, false, 1, 0L, file.modificationTime, file.toPath)
    new OneRow(source.value.reader(status).row(aggregate.values))
  }
}

private final class OneRow(row: InternalRow) extends PartitionReader[InternalRow] {
  private var given = false

  override def next(): Boolean = !given && {
    given = true
    true
  }
  override def get(): InternalRow = row
  override def close(): Unit = ()
}
