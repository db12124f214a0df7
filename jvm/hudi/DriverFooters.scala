package org.apache.spark.sql.lakeshift.hudi

import java.util.OptionalLong

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read.{LocalScan, Statistics, SupportsReportStatistics}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.ThreadUtils

/** The answer of footers that the driver has read itself: one row, and no job. */
final class DriverFooters(val selection: FileSelection, val aggregate: FooterAggregate, answer: InternalRow)
    extends LocalScan with SupportsReportStatistics {

  override def readSchema(): StructType = aggregate.schema
  override def rows(): Array[InternalRow] = Array(answer)

  override def estimateStatistics(): Statistics = new Statistics {
    override def sizeInBytes(): OptionalLong = OptionalLong.of(readSchema().defaultSize)
    override def numRows(): OptionalLong = OptionalLong.of(1)
  }

  override def description(): String =
    s"HudiFooterScan on the driver, files: ${selection.files.size}, " +
      s"aggregates: [${aggregate.values.mkString(", ")}], partition filters: [${selection.partitionFilters.mkString(", ")}]"
}

/**
 * Footers of a few files are read on the driver while the query is planned, which costs less than to start a job.
 *
 * Bounded twice: in files, since planning must not wait for long, and in what is read, since the driver reads
 * footers and never data. What is beyond goes to tasks, as a [[FooterScan]].
 */
object DriverFooters extends Logging {
  val MostFiles = "spark.lakeshift.hudi.footersOnDriver"
  private val mostFiles = 256
  private val threads = 16

  def of(selection: FileSelection, aggregate: FooterAggregate): Option[DriverFooters] =
    if (selection.files.isEmpty) Some(new DriverFooters(selection, aggregate, aggregate.ofNothing))
    else if (selection.files.size > limit) None
    else answers(selection, aggregate).map(found =>
      new DriverFooters(selection, aggregate, found.reduce(aggregate.add(_, _))))

  private def limit: Int = {
    val asked = SQLConf.get.getConfString(MostFiles, mostFiles.toString).trim
    if (asked.isEmpty || !asked.forall(_.isDigit) || asked.length > 9)
      throw new IllegalArgumentException(s"$MostFiles is '$asked'; set it to a number of files, or 0 for none.")
    asked.toInt
  }

  /** A row a file; None when one of them cannot tell, or cannot be read: tasks then say so, or skip it if told to. */
  private def answers(selection: FileSelection, aggregate: FooterAggregate): Option[Seq[InternalRow]] = {
    val source = FooterSource.of(selection.relation)
    try {
      val told = ThreadUtils.parmap(selection.files, "hudi-footers", math.min(threads, selection.files.size)) {
        selected => source.reader(selected.file.fileStatus).fromFooter(aggregate.values)
      }
      if (told.forall(_.isDefined)) Some(told.flatten) else None
    } catch {
      case NonFatal(error) =>
        logWarning("The driver could not read the footers of a Hudi table; tasks will", error)
        None
    }
  }
}
