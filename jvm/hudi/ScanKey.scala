package org.apache.spark.sql.lakeshift.hudi

import java.util.UUID

import org.apache.spark.sql.catalyst.expressions.{AttributeReference, ExprId, Expression}
import org.apache.spark.sql.types.StructType

/**
 * What makes two scans the same: the table at the same point of its timeline, the same options, columns and
 * filters. Two loads of one path are equal by this, and expressions compare by column, not by the identifiers
 * that Spark gives anew to every reference.
 */
final case class ScanKey(
    path: String,
    timeline: String,
    options: Map[String, String],
    columns: StructType,
    filters: Set[Expression],
    limit: Option[Int])

object ScanKey {
  private val noJvm = new UUID(0L, 0L)

  def apply(selection: FileSelection, columns: StructType, limit: Option[Int]): ScanKey = {
    val metaClient = selection.index.metaClient
    ScanKey(
      metaClient.getBasePath.toString,
      metaClient.getActiveTimeline.getTimelineHash,
      selection.relation.options - ReadGate.Key,
      columns,
      (selection.partitionFilters ++ selection.dataFilters).map(byColumn(_, selection.relation.schema)).toSet,
      limit)
  }

  private def byColumn(filter: Expression, schema: StructType): Expression = filter.transform {
    case attribute: AttributeReference =>
      attribute.withExprId(ExprId(schema.fieldIndex(attribute.name), noJvm)).withQualifier(Nil)
  }.canonicalized
}
