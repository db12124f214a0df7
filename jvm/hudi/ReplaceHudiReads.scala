package org.apache.spark.sql.lakeshift.hudi

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Puts a DataSource V2 relation where an optimized plan reads a Hudi table and the gate is open. */
object ReplaceHudiReads extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.transform {
    case relation @ LogicalRelation(files: HadoopFsRelation, output, _, _)
        if ReadPath.of(relation).exists(_.usesV2) =>
      val table = HudiReadTable(ReadPath.tableName(files, relation), files)
      DataSourceV2Relation(table, output, None, None, CaseInsensitiveStringMap.empty())
  }
}
