package org.apache.spark.sql.lakeshift.hudi

import java.io.BufferedInputStream
import java.util.{ArrayList, List => JavaList}

import scala.util.control.ControlThrowable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, FSDataInputStream}
import org.apache.parquet.format.{EncryptionAlgorithm, FileMetaData, KeyValue, RowGroup, SchemaElement, Util}
import org.apache.parquet.format.converter.ParquetMetadataConverter
import org.apache.parquet.hadoop.metadata.ParquetMetadata

/**
 * Reads of a Parquet footer what comes before the key-value metadata, unless that is asked for too.
 *
 * Hudi keeps a Bloom filter of the record keys there, which makes footers of two kilobytes ones of nearly a megabyte:
 * to leave it unread is most of what reading footers costs.
 */
object ParquetFooter {
  private val tail = 8 // the footer's length in four bytes, and four of magic
  private val magic = Seq[Byte]('P', 'A', 'R', '1')
  private val readAhead = 16 * 1024

  /** The footer; None when it is encrypted, or when this is no Parquet file: Parquet's own reader has the words. */
  def read(file: FileStatus, conf: Configuration, keyValuesToo: Boolean): Option[ParquetMetadata] =
    parsed(file, conf, new Consumer(if (keyValuesToo) WholeFooter else RowGroups)).filterNot(_.encrypted)
      .map(found => new ParquetMetadataConverter().fromParquetMetadata(found.metadata))

  /** The count of rows, for which the row groups need not be parsed; None where there is no footer to read. */
  def rows(file: FileStatus, conf: Configuration): Option[Long] =
    parsed(file, conf, new Consumer(CountOfRows)).map(_.metadata.getNum_rows).filter(_ >= 0)

  private def parsed(file: FileStatus, conf: Configuration, consumer: Consumer): Option[Consumer] = {
    val stream = file.getPath.getFileSystem(conf).open(file.getPath)
    try {
      start(stream, file.getLen).map { position =>
        stream.seek(position)
        try Util.readFileMetaData(new BufferedInputStream(stream, readAhead), consumer)
        catch { case Enough => }
        consumer
      }
    } finally stream.close()
  }

  private def start(stream: FSDataInputStream, length: Long): Option[Long] =
    if (length < tail + magic.size) None
    else {
      val end = new Array[Byte](tail)
      stream.readFully(length - tail, end)
      val footerLength = end.take(4).zipWithIndex.map { case (byte, i) => (byte & 0xffL) << (8 * i) }.sum
      val position = length - tail - footerLength
      if (end.drop(4).toSeq == magic && position >= magic.size) Some(position) else None
    }

  private object Enough extends ControlThrowable

  /** How far a footer is read. */
  private sealed trait Extent
  private case object CountOfRows extends Extent
  private case object RowGroups extends Extent
  private case object WholeFooter extends Extent

  /** Fields come in the order of their numbers: the count of rows, the row groups, then the key-value metadata. */
  private final class Consumer(extent: Extent) extends Util.FileMetaDataConsumer {
    val metadata = new FileMetaData(0, new ArrayList[SchemaElement](), -1L, new ArrayList[RowGroup]())
    var encrypted = false
    private var rows = 0L

    override def setVersion(version: Int): Unit = metadata.setVersion(version)
    override def setSchema(schema: JavaList[SchemaElement]): Unit = metadata.setSchema(schema)
    override def setNumRows(count: Long): Unit = {
      metadata.setNum_rows(count)
      if (extent == CountOfRows) throw Enough
    }
    override def addKeyValueMetaData(entry: KeyValue): Unit = metadata.addToKey_value_metadata(entry)
    override def setCreatedBy(createdBy: String): Unit = metadata.setCreated_by(createdBy)
    override def setEncryptionAlgorithm(algorithm: EncryptionAlgorithm): Unit = encrypted = true
    override def setFooterSigningKeyMetadata(key: Array[Byte]): Unit = encrypted = true

    override def addRowGroup(group: RowGroup): Unit = {
      metadata.addToRow_groups(group)
      rows += group.getNum_rows
      if (extent == RowGroups && rows == metadata.getNum_rows) throw Enough
    }
  }
}
