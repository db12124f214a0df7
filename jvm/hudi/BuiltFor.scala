package io.lakeshift.hudi

import java.util.Properties

/**
 * The versions this jar was compiled against, and whether a session's own fit them.
 *
 * Nothing of Spark or Hudi is imported here: on the wrong version this class must still load, so that
 * the user reads a sentence and not a linkage error.
 */
object BuiltFor {
  private val resource = "lakeshift-hudi.properties"

  private lazy val properties: Properties = {
    val loaded = new Properties()
    val stream = getClass.getClassLoader.getResourceAsStream(resource)
    if (stream == null) throw new IllegalStateException(s"$resource is missing from the connector's jar; build it again")
    try loaded.load(stream) finally stream.close()
    loaded
  }

  def spark: String = properties.getProperty("spark")
  def hudi: String = properties.getProperty("hudi")

  /** What does not fit, as a sentence; empty when everything does. Patch levels and vendor suffixes fit. */
  def mismatch(sparkVersion: String, hudiVersion: String): String =
    Seq(("Spark", spark, sparkVersion), ("Hudi", hudi, hudiVersion)).collect {
      case (name, built, found) if line(built) != line(found) =>
        s"the connector was built for $name $built and the session runs $name $found"
    }.mkString("; ")

  private def line(version: String): String = version.split("[^0-9]+").take(2).mkString(".")
}
