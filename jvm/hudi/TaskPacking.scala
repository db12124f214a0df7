package org.apache.spark.sql.lakeshift.hudi

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.PartitionedFileUtil
import org.apache.spark.sql.execution.datasources.{FilePartition, HadoopFsRelation, PartitionDirectory, PartitionedFile}

/**
 * Shares files out to tasks by what it costs to read them, where Spark goes by their size alone.
 *
 * File groups with log files are read row by row and merged, all others in vectors. Spark packs the largest files
 * first, and log files make a file group larger: of one table, all file groups that need merging came into one task,
 * for which the other cores then waited.
 */
object TaskPacking {

  /** How many times as long a file group takes that is merged as one that is only decoded. */
  private val mergingCost = 4L

  def tasks(relation: HadoopFsRelation, files: Seq[SelectedFile]): Seq[FilePartition] = {
    val spark = relation.sparkSession
    val splitBytes = FilePartition.maxSplitBytes(spark, Seq(PartitionDirectory(InternalRow.empty, files.map(_.file))))
    // Spark adds what it costs to open a file to each length, and merging opens log files as well.
    val opening = spark.sessionState.conf.filesOpenCostInBytes
    val splits = for (selected <- files; split <- splitsOf(relation, selected, splitBytes))
      yield Costed(split, if (selected.hasLogs) (split.length + opening) * mergingCost - opening else split.length)
    pack(spark, splits.sortBy(-_.cost), splitBytes)
  }

  private final case class Costed(split: PartitionedFile, cost: Long)

  private def splitsOf(relation: HadoopFsRelation, selected: SelectedFile, splitBytes: Long): Seq[PartitionedFile] = {
    val path = selected.file.getPath
    val splitable = relation.fileFormat.isSplitable(relation.sparkSession, relation.options, path)
    PartitionedFileUtil.splitFiles(
      relation.sparkSession, selected.file, path, splitable, splitBytes, selected.partition)
  }

  /** Spark packs stand-ins that are as long as a split is costly, and keeps their order: so they can be put back. */
  private def pack(spark: SparkSession, splits: Seq[Costed], splitBytes: Long): Seq[FilePartition] = {
    val standIns = splits.map(costed => costed.split.copy(length = costed.cost))
    val originals = splits.iterator.map(_.split)
    FilePartition.getFilePartitions(spark, standIns, splitBytes).map { task =>
      task.copy(files = task.files.map(_ => originals.next()))
    }
  }
}
