package org.apache.spark.sql.lakeshift.hudi

import org.apache.spark.sql.connector.metric.{CustomMetric, CustomSumMetric, CustomTaskMetric}

/** What a scan reads, by the names that V1's scan uses in Spark's UI. */
object ScanMetrics {
  def all: Array[CustomMetric] = Array(new FilesRead, new FilesSize, new PartitionsRead)

  def of(files: Seq[SelectedFile]): Array[CustomTaskMetric] = Array(
    Value(FilesRead.Name, files.size),
    Value(FilesSize.Name, files.map(_.sizeInBytes).sum),
    Value(PartitionsRead.Name, files.map(_.partition).distinct.size))

  private final case class Value(name: String, value: Long) extends CustomTaskMetric
}

object FilesRead { val Name = "numFiles" }
class FilesRead extends CustomSumMetric {
  override def name(): String = FilesRead.Name
  override def description(): String = "number of files read"
}

object FilesSize { val Name = "filesSize" }
class FilesSize extends CustomSumMetric {
  override def name(): String = FilesSize.Name
  override def description(): String = "size of files read in bytes"
}

object PartitionsRead { val Name = "numPartitions" }
class PartitionsRead extends CustomSumMetric {
  override def name(): String = PartitionsRead.Name
  override def description(): String = "number of partitions read"
}
