package org.apache.spark.sql.lakeshift.hudi

import org.apache.hudi.{HoodieFileIndex, HoodieIncrementalFileIndex, HoodiePartitionFileSliceMapping}
import org.apache.hudi.common.fs.FSUtils
import org.apache.hudi.common.model.FileSlice
import org.apache.hudi.hadoop.fs.HadoopFSUtils

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.execution.datasources.{FileStatusWithMetadata, HadoopFsRelation}

/** One file group as a query reads it: its base file, or its first log file where there is no base file yet. */
final case class SelectedFile(file: FileStatusWithMetadata, partition: InternalRow, slice: Option[FileSlice]) {
  def name: String = file.getPath.getName
  def hasLogs: Boolean = slice.exists(_.hasLogFiles)
  def sizeInBytes: Long = slice.map(_.getTotalFileSize).getOrElse(file.getLen)
}

/**
 * The files that a query reads, as Hudi's own index lists them under the query's filters.
 *
 * Listed once, when first asked for, and shared by the statistics, the aggregates and the planning of tasks.
 */
final class FileSelection(
    val relation: HadoopFsRelation,
    val partitionFilters: Seq[Expression],
    val dataFilters: Seq[Expression]) {

  val index: HoodieFileIndex = relation.location.asInstanceOf[HoodieFileIndex]
  val isIncremental: Boolean = index.isInstanceOf[HoodieIncrementalFileIndex]

  lazy val files: Seq[SelectedFile] = index.listFiles(partitionFilters, dataFilters).flatMap { directory =>
    directory.files.map(file => SelectedFile(file, directory.values, sliceOf(file, directory.values)))
  }

  lazy val sizeInBytes: Long = files.map(_.sizeInBytes).sum

  /** At most this many rows, and exactly so unless log files are merged; None when it cannot be told. */
  lazy val rowBound: Option[Long] =
    if (isIncremental) None // a part of each file's rows, and which part is only known by reading them
    else files.foldLeft(Option(0L)) { (sum, file) => sum.flatMap(s => rows.bound(file).map(s + _)) }

  lazy val rows = new RowCounts(index.metaClient)

  private def sliceOf(file: FileStatusWithMetadata, partition: InternalRow): Option[FileSlice] = partition match {
    case mapping: HoodiePartitionFileSliceMapping =>
      mapping.getSlice(FSUtils.getFileIdFromFilePath(HadoopFSUtils.convertToStoragePath(file.getPath)))
    case _ => None
  }
}
