package org.apache.spark.sql.lakeshift.hudi

import org.apache.spark.sql.catalyst.expressions.{AttributeSet, Expression, PredicateHelper, PythonUDF, SubqueryExpression}
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation
import org.apache.spark.sql.connector.expressions.filter.Predicate
import org.apache.spark.sql.connector.read.{Scan, SupportsPushDownAggregates, SupportsPushDownLimit}
import org.apache.spark.sql.execution.datasources.{DataSourceStrategy, DataSourceUtils, HadoopFsRelation}
import org.apache.spark.sql.execution.datasources.v2.FileScanBuilder
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.StructType

/** Takes what Spark pushes down (filters, aggregates, a limit, columns), in that order, and builds the scan. */
final class HudiScanBuilder(tableName: String, relation: HadoopFsRelation)
    extends FileScanBuilder(relation.sparkSession, new PartitionColumnsOnly(relation), relation.dataSchema)
    with SupportsPushDownAggregates
    with SupportsPushDownLimit
    with PredicateHelper {

  private var columns: StructType = withoutPartitionColumns(relation.schema)
  private var pushed: Seq[Filter] = Nil
  private var limit: Option[Int] = None
  private var footers: Option[Scan] = None
  private var selection = new FileSelection(relation, Nil, Nil)

  /** Partition filters are answered by the listing of files; all others come back to be evaluated again. */
  override def pushFilters(filters: Seq[Expression]): Seq[Expression] = {
    val (usable, others) = filters.partition { f =>
      f.deterministic && !SubqueryExpression.hasSubquery(f) && !f.exists(_.isInstanceOf[PythonUDF])
    }
    val (onPartitions, mixed) = DataSourceUtils.getPartitionFiltersAndDataFilters(relation.partitionSchema, usable)
    val onData = mixed.flatMap(partOnData)
    selection = new FileSelection(relation, onPartitions, onData)
    // Hudi's reader does not take filters on nested fields from V1 either.
    pushed = onData.flatMap(DataSourceStrategy.translateFilter(_, supportNestedPredicatePushdown = false))
    usable.filterNot(onPartitions.contains) ++ others
  }

  override def pushedFilters: Array[Predicate] = pushed.map(_.toV2).toArray

  /** Spark asks this first: an answer that the driver has leaves nothing for Spark to add up. */
  override def supportCompletePushDown(aggregation: Aggregation): Boolean = {
    val answerable = FooterAggregate.of(aggregation, selection)
    val onDriver = answerable.flatMap(DriverFooters.of(selection, _))
    footers = onDriver.orElse(answerable.map(new FooterScan(tableName, selection, _)))
    onDriver.isDefined
  }

  override def pushAggregation(aggregation: Aggregation): Boolean = footers.isDefined

  override def pushLimit(rows: Int): Boolean = {
    limit = Some(rows)
    true
  }

  /** Each task stops early; Spark still cuts what the tasks return together. */
  override def isPartiallyPushed: Boolean = true

  override def pruneColumns(required: StructType): Unit = columns = withoutPartitionColumns(required)

  override def build(): Scan = footers.getOrElse(new HudiScan(tableName, selection, columns, pushed, limit))

  /**
   * What a filter says about data columns alone: files do not hold partition columns, so that a reader which met
   * `region = 'eu' OR id = 4` would take the first half for false.
   */
  private def partOnData(filter: Expression): Option[Expression] = {
    val ofData = AttributeSet(filter.references.filterNot(a => relation.partitionSchema.exists(_.name == a.name)))
    if (ofData.size == filter.references.size) Some(filter) else extractPredicatesWithinOutputSet(filter, ofData)
  }

  private def withoutPartitionColumns(schema: StructType): StructType =
    StructType(schema.filterNot(field => relation.partitionSchema.exists(_.name == field.name)))
}
