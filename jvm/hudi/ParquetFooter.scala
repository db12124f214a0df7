package org.apache.spark.sql.lakeshift.hudi

import java.io.{BufferedInputStream, InputStream}
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
  def read(file: FileStatus, conf: Configuration, keyValuesToo: Boolean): Option[ParquetMetadata] = {
    val stream = file.getPath.getFileSystem(conf).open(file.getPath)
    try {
      start(stream, file.getLen).flatMap { position =>
        stream.seek(position)
        parse(new BufferedInputStream(stream, readAhead), keyValuesToo)
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

  private def parse(stream: InputStream, keyValuesToo: Boolean): Option[ParquetMetadata] = {
    val found = new Consumer(stopAtRows = !keyValuesToo)
    try Util.readFileMetaData(stream, found)
    catch { case AllRowsSeen => }
    if (found.encrypted) None else Some(new ParquetMetadataConverter().fromParquetMetadata(found.metadata))
  }

  private object AllRowsSeen extends ControlThrowable

  /** Fields come in the order of their numbers: the count of rows, the row groups, then the key-value metadata. */
  private final class Consumer(stopAtRows: Boolean) extends Util.FileMetaDataConsumer {
    val metadata = new FileMetaData(0, new ArrayList[SchemaElement](), -1L, new ArrayList[RowGroup]())
    var encrypted = false
    private var rows = 0L

    override def setVersion(version: Int): Unit = metadata.setVersion(version)
    override def setSchema(schema: JavaList[SchemaElement]): Unit = metadata.setSchema(schema)
    override def setNumRows(count: Long): Unit = metadata.setNum_rows(count)
    override def addKeyValueMetaData(entry: KeyValue): Unit = metadata.addToKey_value_metadata(entry)
    override def setCreatedBy(createdBy: String): Unit = metadata.setCreated_by(createdBy)
    override def setEncryptionAlgorithm(algorithm: EncryptionAlgorithm): Unit = encrypted = true
    override def setFooterSigningKeyMetadata(key: Array[Byte]): Unit = encrypted = true

    override def addRowGroup(group: RowGroup): Unit = {
      metadata.addToRow_groups(group)
      rows += group.getNum_rows
      if (stopAtRows && rows == metadata.getNum_rows) throw AllRowsSeen
    }
  }
}
