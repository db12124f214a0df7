package org.apache.spark.sql.lakeshift.hudi

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.expressions.{Expression, NamedReference}
import org.apache.spark.sql.connector.expressions.aggregate.{AggregateFunc, Aggregation, Count, CountStar, Max, Min}
import org.apache.spark.sql.types._

/** One value that a Parquet footer answers. */
sealed trait FooterValue {
  def dataType: DataType
}
case object RowCount extends FooterValue {
  override def dataType: DataType = LongType
}
final case class NonNullCount(column: String) extends FooterValue {
  override def dataType: DataType = LongType
}
final case class Smallest(column: String, dataType: DataType) extends FooterValue
final case class Largest(column: String, dataType: DataType) extends FooterValue

/** The aggregates of a query, all of them answerable from footers: a row for each file, and the rows add up. */
final case class FooterAggregate(values: Seq[FooterValue]) {
  /** The columns have names by which a plan's text shows that footers answer. */
  def schema: StructType = StructType(values.zipWithIndex.map { case (value, i) =>
    StructField(s"HudiFooter_${value.toString.takeWhile(_ != '(')}_$i", value.dataType)
  })

  /** The answer over no file at all: a count is 0 there, and a bound is null. */
  def ofNothing: InternalRow = InternalRow.fromSeq(values.map {
    case RowCount | _: NonNullCount => 0L
    case _ => null
  })

  /** The answer over the files of both rows. */
  def add(left: InternalRow, right: InternalRow): InternalRow =
    InternalRow.fromSeq(values.zipWithIndex.map { case (value, i) =>
      (left.get(i, value.dataType), right.get(i, value.dataType)) match {
        case (null, other) => other
        case (one, null) => one
        case (one: Number, other: Number) => value match {
          case RowCount | _: NonNullCount => one.longValue + other.longValue
          case _: Smallest => if (other.longValue < one.longValue) other else one
          case _: Largest => if (other.longValue > one.longValue) other else one
        }
      }
    })
}

object FooterAggregate {

  /**
   * The aggregate, if footers answer all of it exactly over the selected files; None leaves it to a scan.
   *
   * Spark asks only when no filter but those on partition columns remains.
   */
  def of(aggregation: Aggregation, selection: FileSelection): Option[FooterAggregate] = {
    val values = aggregation.aggregateExpressions.map(valueOf(_, selection)).toSeq
    val answerable = aggregation.groupByExpressions.isEmpty && values.nonEmpty && values.forall(_.isDefined)
    if (answerable && everyRowCounts(selection)) Some(FooterAggregate(values.flatten)) else None
  }

  /** Every row of every file is a row of the result: nothing to merge, nothing to leave out. */
  private def everyRowCounts(selection: FileSelection): Boolean =
    !selection.isIncremental && selection.dataFilters.isEmpty &&
      selection.files.forall(file => !file.hasLogs && file.name.endsWith(".parquet"))

  private def valueOf(function: AggregateFunc, selection: FileSelection): Option[FooterValue] = function match {
    case _: CountStar => Some(RowCount)
    case count: Count if !count.isDistinct => column(count.column, selection).map(f => NonNullCount(f.name))
    case min: Min => comparable(min.column, selection).map(f => Smallest(f.name, f.dataType))
    case max: Max => comparable(max.column, selection).map(f => Largest(f.name, f.dataType))
    case _ => None
  }

  /** A top-level column that files hold under this very name, or not at all. */
  private def column(expression: Expression, selection: FileSelection): Option[StructField] = expression match {
    case reference: NamedReference if reference.fieldNames.length == 1 && !mayBeRenamed(selection) =>
      val relation = selection.relation
      relation.dataSchema.find(_.name == reference.fieldNames.head)
        .filterNot(field => relation.partitionSchema.exists(_.name == field.name))
        .filter(field => field.dataType.isInstanceOf[AtomicType])
    case _ => None
  }

  private def mayBeRenamed(selection: FileSelection): Boolean =
    selection.relation.options.get("hoodie.schema.on.read.enable").exists(_.trim.equalsIgnoreCase("true"))

  /**
   * Types whose bounds in a footer are the values themselves. Left out: floating types, since a footer does not
   * tell about NaN, which Spark orders highest; strings and decimals, whose bounds may be cut or of old order.
   */
  private def comparable(expression: Expression, selection: FileSelection): Option[StructField] =
    column(expression, selection).filter(field => field.dataType match {
      case ByteType | ShortType | IntegerType | LongType | DateType => true
      case _ => false
    })
}
