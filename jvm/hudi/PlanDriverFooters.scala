package org.apache.spark.sql.lakeshift.hudi

import org.apache.spark.sql.catalyst.expressions.{AttributeReference, InterpretedMutableProjection, NamedExpression, Unevaluable}
import org.apache.spark.sql.catalyst.planning.PhysicalOperation
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{LocalTableScanExec, SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation

/**
 * Plans an answer of the driver as a local table that holds the query's own columns. Spark would put a projection over
 * the local table, if only to name its columns, and start a job for it.
 */
object PlanDriverFooters extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case PhysicalOperation(columns, Nil, DataSourceV2ScanRelation(_, scan: DriverFooters, output, _, _))
        if columns.forall(isEvaluable) =>
      val project = new InterpretedMutableProjection(columns, output)
      project.initialize(0)
      LocalTableScanExec(columns.map(_.toAttribute), scan.rows().map(row => project(row).copy()).toSeq) :: Nil
    case _ => Nil
  }

  private def isEvaluable(column: NamedExpression): Boolean =
    column.deterministic && !column.exists {
      case _: AttributeReference => false // bound to the row before it is evaluated
      case expression => expression.isInstanceOf[Unevaluable]
    }
}
