package org.apache.spark.sql.lakeshift.hudi

import java.util.Locale

import com.google.common.cache.CacheBuilder
import org.apache.hudi.HoodieFileIndex

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.internal.SQLConf

/** Whether reads of a relation were asked to go through DataSource V2, and who asked. */
final case class ReadGate(on: Boolean, askedBy: String)

/**
 * The option of the read wins over the session's setting, which wins over the table's property.
 *
 * Hudi copies the session's `hoodie.*` settings into the options of every relation it makes, and Spark caches
 * the relations of catalog tables. So an option found on a relation may be an old session setting, which must
 * not outlive a change of that setting. What the session said when the relation was first analyzed tells.
 */
object ReadGate {
  val Key = "hoodie.datasource.read.use.dsv2"

  /** Relations (by identity) to whether their option was given with the read itself. */
  private val givenWithRead = CacheBuilder.newBuilder().weakKeys().build[HadoopFsRelation, java.lang.Boolean]()

  def of(relation: HadoopFsRelation, table: Option[CatalogTable]): ReadGate = {
    val option = relation.options.get(Key).filter { value =>
      givenWithRead.get(relation, () => isGivenWithRead(value, relation, table))
    }
    option.map(parse(_, "an option of this read"))
      .orElse(ofSession.map(parse(_, "the session")))
      .orElse(ofTable(relation, table).map(parse(_, "a property of the table")))
      .getOrElse(ReadGate(on = false, "its default"))
  }

  /** Note, at the first analysis of a relation, where its option came from; the plan stays as it is. */
  def remember(session: SparkSession, plan: LogicalPlan): Unit = plan.collectWithSubqueries {
    case LogicalRelation(relation: HadoopFsRelation, _, table, _)
        if relation.location.isInstanceOf[HoodieFileIndex] && relation.options.contains(Key) =>
      val given = givenWithRead.get(relation, () => isGivenWithRead(relation.options(Key), relation, table))
      // Spark would hand the relation, with this read's option, to every later read of the table.
      if (given) table.foreach(t => session.sessionState.catalog.invalidateCachedTable(t.identifier))
  }

  private def isGivenWithRead(value: String, relation: HadoopFsRelation, table: Option[CatalogTable]): Boolean =
    !ofSession.contains(value) && !ofTable(relation, table).contains(value)

  private def ofSession: Option[String] = Option(SQLConf.get.getConfString(Key, null))

  private def ofTable(relation: HadoopFsRelation, table: Option[CatalogTable]): Option[String] =
    table.flatMap(t => t.properties.get(Key).orElse(t.storage.properties.get(Key))).orElse {
      val config = relation.location.asInstanceOf[HoodieFileIndex].metaClient.getTableConfig
      Option(config.getProps.getProperty(Key))
    }

  private def parse(value: String, askedBy: String): ReadGate = value.trim.toLowerCase(Locale.ROOT) match {
    case "true" => ReadGate(on = true, askedBy)
    case "false" => ReadGate(on = false, askedBy)
    case _ => throw new IllegalArgumentException(s"$Key is '$value' by $askedBy; set it to true or false.")
  }
}
