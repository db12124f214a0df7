package org.apache.spark.sql.lakeshift.hudi

import java.util.OptionalLong

import org.apache.hudi.keygen.{CustomAvroKeyGenerator, CustomKeyGenerator, TimestampBasedAvroKeyGenerator, TimestampBasedKeyGenerator}

import org.apache.spark.sql.catalyst.FileSourceOptions
import org.apache.spark.sql.catalyst.expressions.{And, BoundReference, Expression, In, Literal, Predicate => RowPredicate}
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.connector.expressions.{Expressions, LiteralValue, NamedReference}
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.metric.{CustomMetric, CustomTaskMetric}
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.execution.datasources.FileFormat
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.StructType

/** The rows of a Hudi table: files by Hudi's index, rows by Hudi's file group reader, tasks by Spark. */
final class HudiScan(
    tableName: String,
    val selection: FileSelection,
    val columns: StructType,
    val pushed: Seq[Filter],
    val limit: Option[Int])
    extends Scan with Batch with SupportsReportStatistics with SupportsRuntimeV2Filtering {

  private val relation = selection.relation
  private val spark = relation.sparkSession
  private var runtimeFilter: Option[Expression] = None
  private var read: Seq[SelectedFile] = Nil

  override def readSchema(): StructType = StructType(columns ++ relation.partitionSchema)
  override def toBatch: Batch = this

  override def columnarSupportMode(): Scan.ColumnarSupportMode =
    if (relation.fileFormat.synchronized(relation.fileFormat.supportBatch(spark, readSchema())))
      Scan.ColumnarSupportMode.SUPPORTED
    else Scan.ColumnarSupportMode.UNSUPPORTED

  override def description(): String =
    s"HudiScan columns: [${readSchema().fieldNames.mkString(", ")}], " +
      s"partition filters: [${selection.partitionFilters.mkString(", ")}], pushed filters: [${pushed.mkString(", ")}]" +
      limit.map(rows => s", limit: $rows").getOrElse("")

  // Statistics

  override def estimateStatistics(): Statistics = new Statistics {
    override def sizeInBytes(): OptionalLong = {
      val share = readSchema().defaultSize.toDouble / math.max(1, relation.schema.defaultSize)
      val factor = spark.sessionState.conf.fileCompressionFactor
      OptionalLong.of((selection.sizeInBytes * share * factor).ceil.toLong)
    }
    override def numRows(): OptionalLong =
      selection.rowBound.map(OptionalLong.of).getOrElse(OptionalLong.empty())
  }

  // Dynamic partition pruning

  override def filterAttributes(): Array[NamedReference] =
    if (partitionValuesAreColumnValues) relation.partitionSchema.map(f => Expressions.column(f.name)).toArray
    else Array.empty

  override def filter(predicates: Array[Predicate]): Unit =
    runtimeFilter = predicates.filter(_.name == "IN").map(overPartitionValues).reduceOption(And)

  /** Timestamp and custom key generators format the column's value on its way into the path. */
  private def partitionValuesAreColumnValues: Boolean = !Set(
    classOf[TimestampBasedKeyGenerator], classOf[TimestampBasedAvroKeyGenerator],
    classOf[CustomKeyGenerator], classOf[CustomAvroKeyGenerator]
  ).exists(_.getName == selection.index.metaClient.getTableConfig.getKeyGeneratorClassName)

  private def overPartitionValues(predicate: Predicate): Expression = {
    val column = predicate.children.head.asInstanceOf[NamedReference].fieldNames.head
    val ordinal = relation.partitionSchema.fieldIndex(column)
    val field = relation.partitionSchema(ordinal)
    val values = predicate.children.tail.map { case LiteralValue(value, dataType) => Literal(value, dataType) }
    In(BoundReference(ordinal, field.dataType, field.nullable), values)
  }

  // Tasks

  override def planInputPartitions(): Array[InputPartition] = {
    read = withinLimit(afterRuntimeFilter)
    TaskPacking.tasks(relation, read).toArray
  }

  private def afterRuntimeFilter: Seq[SelectedFile] = runtimeFilter match {
    case None => selection.files
    case Some(filter) =>
      val keeps = RowPredicate.createInterpreted(filter)
      selection.files.filter(selected => keeps.eval(selected.partition))
  }

  /** As many files as surely hold the limit's rows. */
  private def withinLimit(files: Seq[SelectedFile]): Seq[SelectedFile] = limit match {
    case Some(rows) if !selection.isIncremental =>
      val found = files.iterator.scanLeft(0L)((sum, file) => sum + selection.rows.exact(file).getOrElse(0L))
      files.zip(found.takeWhile(_ < rows).toSeq).map(_._1)
    case _ => files
  }

  override def createReaderFactory(): PartitionReaderFactory = {
    val format = relation.fileFormat
    val vectorized = SQLConf.PARQUET_VECTORIZED_READER_ENABLED
    // The format remembers its last answer to supportBatch, and writes the session's setting when it builds a reader.
    format.synchronized {
      val batches = format.supportBatch(spark, readSchema())
      val before = spark.sessionState.conf.getConf(vectorized)
      try {
        val reader = format.buildReaderWithPartitionValues(
          spark, relation.dataSchema, relation.partitionSchema, columns, pushed,
          relation.options + (FileFormat.OPTION_RETURNING_BATCH -> batches.toString),
          spark.sessionState.newHadoopConfWithOptions(relation.options))
        HudiReaderFactory(reader, batches, limit, new FileSourceOptions(CaseInsensitiveMap(relation.options)))
      } finally spark.sessionState.conf.setConf(vectorized, before)
    }
  }

  override def supportedCustomMetrics(): Array[CustomMetric] = ScanMetrics.all
  override def reportDriverMetrics(): Array[CustomTaskMetric] = ScanMetrics.of(read)

  // Equality: Spark reuses the exchange above a scan that equals another one.

  private lazy val key = ScanKey(selection, readSchema(), limit)
  override def equals(other: Any): Boolean = other match {
    case scan: HudiScan => scan.key == this.key
    case _ => false
  }
  override def hashCode(): Int = key.hashCode()
}
