package org.apache.spark.sql.lakeshift.hudi

import scala.collection.JavaConverters._

import org.apache.hudi.HoodieFileIndex
import org.apache.hudi.cdc.HoodieCDCFileIndex
import org.apache.hudi.common.model.HoodieFileFormat

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.parquet.HoodieFileGroupReaderBasedFileFormat
import org.apache.spark.sql.execution.streaming.{StreamingRelation, StreamingExecutionRelation}

/** The way one read of a Hudi table takes, and why. The optimizer rule and `explain` both ask here. */
final case class ReadPath(table: String, usesV2: Boolean, reason: String)

object ReadPath {

  /** The path of a relation; None when it is not Hudi's. */
  def of(relation: LogicalRelation): Option[ReadPath] = relation.relation match {
    case files: HadoopFsRelation if files.location.isInstanceOf[HoodieFileIndex] =>
      val gate = ReadGate.of(files, relation.catalogTable)
      val name = tableName(files, relation)
      Some(
        if (!gate.on) ReadPath(name, usesV2 = false, s"${ReadGate.Key} is false by ${gate.askedBy}")
        else unsupported(files, relation) match {
          case Some(reason) => ReadPath(name, usesV2 = false, reason)
          case None => ReadPath(name, usesV2 = true, s"${ReadGate.Key} is true by ${gate.askedBy}")
        })
    case other if other.getClass.getName.startsWith("org.apache.hudi.") =>
      val kind = other.getClass.getSimpleName
      val reason = if (kind == "EmptyRelation") "the table has no completed commit" else s"Hudi reads it as a $kind"
      Some(ReadPath(relation.catalogTable.map(_.identifier.unquotedString).getOrElse(kind), usesV2 = false, reason))
    case _ => None
  }

  /** The paths of all Hudi reads in an analyzed plan, in the plan's order. */
  def inPlan(plan: LogicalPlan): java.util.List[ReadPath] = plan.collectWithSubqueries {
    case relation: LogicalRelation => of(relation)
    case stream: StreamingRelation if stream.sourceName.toLowerCase.contains("hudi") =>
      Some(ReadPath(stream.sourceName, usesV2 = false, "streaming reads stay on V1"))
    case stream: StreamingExecutionRelation if stream.source.getClass.getName.contains(".hudi.") =>
      Some(ReadPath(stream.source.toString, usesV2 = false, "streaming reads stay on V1"))
  }.flatten.asJava

  def tableName(files: HadoopFsRelation, relation: LogicalRelation): String =
    relation.catalogTable.map(_.identifier.unquotedString).getOrElse(files.location.rootPaths.mkString(", "))

  /** Why a read cannot go through V2 although the gate is open. */
  private def unsupported(files: HadoopFsRelation, relation: LogicalRelation): Option[String] = {
    val index = files.location.asInstanceOf[HoodieFileIndex]
    val config = index.metaClient.getTableConfig
    val ownColumns = files.schema.fieldNames.toSet
    val hidden = relation.output.map(_.name).filterNot(ownColumns)
    if (relation.isStreaming) Some("streaming reads stay on V1")
    else if (index.isInstanceOf[HoodieCDCFileIndex]) Some("change data capture queries stay on V1")
    else if (config.getBootstrapBasePath.isPresent) Some("bootstrap tables stay on V1")
    else if (index.metaClient.isMetadataTable) Some("the metadata table stays on V1")
    else if (config.isMultipleBaseFileFormatsEnabled) Some("tables with several base file formats stay on V1")
    else if (config.getBaseFileFormat != HoodieFileFormat.PARQUET)
      Some(s"base files are ${config.getBaseFileFormat}, V2 reads Parquet")
    else if (!files.fileFormat.isInstanceOf[HoodieFileGroupReaderBasedFileFormat])
      Some(s"Hudi reads it as ${files.fileFormat}, not by its file group reader")
    else if (hidden.nonEmpty) Some(s"the query asks for ${hidden.mkString(", ")}, which only V1 serves")
    else None
  }
}
