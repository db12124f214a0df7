package org.apache.spark.sql.lakeshift.hudi

import scala.collection.JavaConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.parquet.HadoopReadOptions
import org.apache.parquet.column.{ColumnDescriptor, ColumnReader}
import org.apache.parquet.column.impl.ColumnReadStoreImpl
import org.apache.parquet.example.DummyRecordConverter
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.metadata.BlockMetaData
import org.apache.parquet.hadoop.util.HadoopInputFile
import org.apache.parquet.schema.{MessageType, PrimitiveType}
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName.{INT32, INT64}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.DataSourceUtils
import org.apache.spark.sql.types.{ByteType, DataType, DateType, IntegerType, ShortType}

/** One column of a file: how many values, and their bounds if they are whole numbers. */
private final case class Summary(nonNull: Long, least: Option[Long], greatest: Option[Long])

/** One Parquet file's answers. A column chunk without statistics is read itself, so that answers are always exact. */
final class FooterReader(path: Path, conf: Configuration, datesRebasedBy: String) {

  def row(values: Seq[FooterValue]): InternalRow = {
    val reader = open()
    try InternalRow.fromSeq(values.map(answer(reader, _))) finally reader.close()
  }

  private def open(): ParquetFileReader =
    ParquetFileReader.open(HadoopInputFile.fromPath(path, conf), HadoopReadOptions.builder(conf, path).build())

  private def answer(reader: ParquetFileReader, value: FooterValue): Any = value match {
    case RowCount => reader.getFooter.getBlocks.asScala.map(_.getRowCount).sum
    case NonNullCount(column) => summary(reader, column).nonNull
    case Smallest(column, dataType) => typed(reader, bounded(reader, column).least, dataType)
    case Largest(column, dataType) => typed(reader, bounded(reader, column).greatest, dataType)
  }

  private def bounded(reader: ParquetFileReader, column: String): Summary = {
    val found = summary(reader, column)
    if (found.nonNull > 0 && found.least.isEmpty)
      throw new IllegalStateException(s"$path holds '$column' as another type than the table says; read it with V1")
    found
  }

  private def summary(reader: ParquetFileReader, column: String): Summary = {
    // A file written before the column was added holds no value of it.
    if (!reader.getFileMetaData.getSchema.containsField(column)) Summary(0, None, None)
    else {
      val told = reader.getFooter.getBlocks.asScala.map(fromStatistics(_, column))
      val parts = if (told.forall(_.isDefined)) told.flatten else Seq(fromPages(column))
      Summary(
        parts.map(_.nonNull).sum,
        parts.flatMap(_.least).reduceOption((a, b) => math.min(a, b)),
        parts.flatMap(_.greatest).reduceOption((a, b) => math.max(a, b)))
    }
  }

  private def fromStatistics(block: BlockMetaData, column: String): Option[Summary] =
    for {
      chunk <- block.getColumns.asScala.find(_.getPath.toArray.sameElements(Array(column)))
      statistics <- Option(chunk.getStatistics) if statistics.isNumNullsSet
      nonNull = chunk.getValueCount - statistics.getNumNulls
      bounded = nonNull > 0 && isWhole(chunk.getPrimitiveType)
      if !bounded || statistics.hasNonNullValue
    } yield
      if (bounded) Summary(nonNull, Some(long(statistics.genericGetMin)), Some(long(statistics.genericGetMax)))
      else Summary(nonNull, None, None)

  /** Reads the whole column, with a reader of its own since reading moves it on. */
  private def fromPages(column: String): Summary = {
    val reader = open()
    try fold(reader, column) finally reader.close()
  }

  private def fold(reader: ParquetFileReader, column: String): Summary = {
    val fileSchema = reader.getFileMetaData.getSchema
    val schema = new MessageType("column", fileSchema.getFields.get(fileSchema.getFieldIndex(column)))
    val descriptor = schema.getColumns.get(0)
    reader.setRequestedSchema(schema)
    val values = Iterator.continually(reader.readNextRowGroup()).takeWhile(_ != null).flatMap { pages =>
      val converter = new DummyRecordConverter(schema).getRootConverter
      val store = new ColumnReadStoreImpl(pages, converter, schema, reader.getFileMetaData.getCreatedBy)
      nonNullValues(store.getColumnReader(descriptor), descriptor, pages.getRowCount)
    }
    values.foldLeft(Summary(0, None, None)) { (sum, value) =>
      Summary(
        sum.nonNull + 1,
        value.map(v => sum.least.fold(v)(math.min(_, v))),
        value.map(v => sum.greatest.fold(v)(math.max(_, v))))
    }
  }

  /** The values that are not null, as numbers where they are whole ones. */
  private def nonNullValues(
      column: ColumnReader, descriptor: ColumnDescriptor, rows: Long): Iterator[Option[Long]] =
    Iterator.range(0, rows.toInt).flatMap { _ =>
      val value = if (column.getCurrentDefinitionLevel < descriptor.getMaxDefinitionLevel) None
      else descriptor.getPrimitiveType.getPrimitiveTypeName match {
        case INT32 => Some(Some(column.getInteger.toLong))
        case INT64 => Some(Some(column.getLong))
        case _ => column.skip(); Some(None)
      }
      column.consume()
      value
    }

  private def isWhole(column: PrimitiveType): Boolean =
    column.getPrimitiveTypeName == INT32 || column.getPrimitiveTypeName == INT64

  private def long(value: Any): Long = value.asInstanceOf[Number].longValue

  private def typed(reader: ParquetFileReader, bound: Option[Long], dataType: DataType): Any =
    (bound, dataType) match {
      case (None, _) => null
      case (Some(value), ByteType) => value.toByte
      case (Some(value), ShortType) => value.toShort
      case (Some(value), IntegerType) => value.toInt
      case (Some(value), DateType) =>
        val metadata = reader.getFileMetaData.getKeyValueMetaData
        val rebase = DataSourceUtils.datetimeRebaseSpec((key: String) => metadata.get(key), datesRebasedBy)
        DataSourceUtils.createDateRebaseFuncInRead(rebase.mode, "Parquet")(value.toInt)
      case (Some(value), _) => value
    }
}
