package org.apache.spark.sql.lakeshift.hudi

import io.lakeshift.hudi.BuiltFor
import org.apache.hudi.HoodieVersion

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.SparkSessionExtensions

/**
 * What `spark.sql.extensions` names, after Hudi's own extension.
 *
 * Reads are replaced in the optimizer, not in the analyzer: commands such as UPDATE, DELETE and MERGE INTO
 * look for Hudi's own relation in the analyzed plan and must keep finding it.
 */
class HudiReadExtension extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    val mismatch = BuiltFor.mismatch(SPARK_VERSION, HoodieVersion.get())
    if (mismatch.nonEmpty) throw new IllegalStateException(s"lakeshift's Hudi connector does not fit: $mismatch")
    extensions.injectCheckRule(session => plan => ReadGate.remember(session, plan))
    extensions.injectOptimizerRule(_ => ReplaceHudiReads)
    extensions.injectPlannerStrategy(_ => PlanDriverFooters)
  }
}
