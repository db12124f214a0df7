package org.apache.spark.sql.lakeshift.hudi

import java.util.{EnumSet, Set => JavaSet}

import scala.collection.mutable

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability}
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, PartitioningAwareFileIndex, PartitionSpec}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * A Hudi table as V2 sees it: it can be read, and nothing else; every write stays with Hudi's V1 commands.
 * A case class, since plans of the same relation must compare equal for Spark to reuse an exchange.
 */
final case class HudiReadTable(tableName: String, files: HadoopFsRelation) extends Table with SupportsRead {
  override def name(): String = tableName
  override def schema(): StructType = files.schema
  override def capabilities(): JavaSet[TableCapability] = EnumSet.of(TableCapability.BATCH_READ)
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = new HudiScanBuilder(tableName, files)
}

/**
 * The shape of a file index, without files: Spark 3.5 hands Catalyst filters to a FileScanBuilder only, and
 * that wants an index of this kind. Files are listed by Hudi's own index, in [[FileSelection]].
 */
final class PartitionColumnsOnly(files: HadoopFsRelation)
    extends PartitioningAwareFileIndex(files.sparkSession, Map.empty, None) {
  override def partitionSpec(): PartitionSpec = PartitionSpec(files.partitionSchema, Nil)
  override def rootPaths: Seq[Path] = files.location.rootPaths
  override def refresh(): Unit = ()
  override protected def leafFiles: mutable.LinkedHashMap[Path, FileStatus] = mutable.LinkedHashMap.empty
  override protected def leafDirToChildrenFiles: Map[Path, Array[FileStatus]] = Map.empty
}
