package org.apache.spark.sql.lakeshift.hudi

import scala.collection.JavaConverters._
import scala.collection.mutable

import org.apache.hudi.common.fs.FSUtils
import org.apache.hudi.common.model.HoodieWriteStat
import org.apache.hudi.common.table.{HoodieTableMetaClient, HoodieTableVersion}
import org.apache.hudi.common.table.timeline.{HoodieInstant, TimelineUtils}

/**
 * How many rows files hold, from the metadata of the commits that wrote them.
 *
 * A base file is named after its commit, and that commit's metadata counts every row in it. Log files only
 * give a bound: what they inserted comes on top, and what they deleted is not taken off. Commits that were
 * archived are not looked for: their files have no count.
 */
final class RowCounts(metaClient: HoodieTableMetaClient) {
  private lazy val timeline = metaClient.getActiveTimeline.getCommitsTimeline.filterCompletedInstants
  private lazy val instants: Map[String, HoodieInstant] =
    timeline.getInstants.asScala.map(instant => instant.requestedTime -> instant).toMap
  private val writtenBy = mutable.Map.empty[String, Map[String, HoodieWriteStat]]

  // Before version 8 several commits append to one log file, and its name tells only the first.
  private lazy val logsNameTheirCommit =
    metaClient.getTableConfig.getTableVersion.greaterThanOrEquals(HoodieTableVersion.EIGHT)

  /** The rows of a file without log files; None when its commit is no longer on the timeline. */
  def exact(file: SelectedFile): Option[Long] = if (file.hasLogs) None else ofBaseFile(file.name)

  /** At least as many rows as a query finds in this file group. */
  def bound(file: SelectedFile): Option[Long] = file.slice.filter(_.hasLogFiles) match {
    case None => ofBaseFile(file.name)
    case Some(_) if !logsNameTheirCommit => None
    case Some(slice) =>
      val base = if (slice.getBaseFile.isPresent) ofBaseFile(slice.getBaseFile.get.getFileName) else Some(0L)
      slice.getLogFiles.iterator.asScala.foldLeft(base) { (sum, log) =>
        for (rows <- sum; written <- stat(log.getDeltaCommitTime, log.getFileName)) yield rows + written.getNumInserts
      }
  }

  private def ofBaseFile(name: String): Option[Long] = stat(FSUtils.getCommitTime(name), name).map(_.getNumWrites)

  private def stat(commit: String, fileName: String): Option[HoodieWriteStat] =
    writtenBy.getOrElseUpdate(commit, statsOf(commit)).get(fileName)

  private def statsOf(commit: String): Map[String, HoodieWriteStat] = instants.get(commit) match {
    case None => Map.empty
    case Some(instant) =>
      TimelineUtils.getCommitMetadata(instant, timeline).getWriteStats.asScala.map { stat =>
        stat.getPath.substring(stat.getPath.lastIndexOf('/') + 1) -> stat
      }.toMap
  }
}
