package org.apache.spark.sql.lakeshift.hudi

import scala.collection.JavaConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.FileStatus
import org.apache.parquet.HadoopReadOptions
import org.apache.parquet.column.{ColumnDescriptor, ColumnReader}
import org.apache.parquet.column.impl.ColumnReadStoreImpl
import org.apache.parquet.example.DummyRecordConverter
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.metadata.{BlockMetaData, ParquetMetadata}
import org.apache.parquet.hadoop.util.HadoopInputFile
import org.apache.parquet.schema.{MessageType, PrimitiveType}
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName.{INT32, INT64}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.datasources.DataSourceUtils
import org.apache.spark.sql.types.{ByteType, DataType, DateType, IntegerType, ShortType}

/** One column of a file: how many values, and their bounds if they are whole numbers. */
private final case class Summary(nonNull: Long, least: Option[Long], greatest: Option[Long])

/** One Parquet file's answers, which are exact or not given. */
final class FooterReader(file: FileStatus, conf: Configuration, datesRebasedBy: String) {

  /** The answers from the footer alone; None when it lacks the statistics of a column that is asked for. */
  def fromFooter(values: Seq[FooterValue]): Option[InternalRow] =
    if (values.forall(_ == RowCount))
      ParquetFooter.rows(file, conf).map(rows => InternalRow.fromSeq(values.map(_ => rows)))
    else footer(values).flatMap { footer =>
      val answers = values.map(value => answer(footer, value, columnOf(value).flatMap(statistics(footer, _))))
      if (answers.forall(_.isDefined)) Some(InternalRow.fromSeq(answers.flatten)) else None
    }

  /** The answers; a column without statistics is read itself. */
  def row(values: Seq[FooterValue]): InternalRow = fromFooter(values).getOrElse {
    val known = footer(values).getOrElse(withFile(_.getFooter))
    InternalRow.fromSeq(values.map { value =>
      val summary = columnOf(value).map(column => statistics(known, column).getOrElse(fromPages(column)))
      answer(known, value, summary).getOrElse(throw new IllegalStateException(
        s"${file.getPath} holds '${columnOf(value).mkString}' as another type than the table says; read it with V1"))
    })
  }

  /** Only dates need the key-value metadata: it says by which calendar they were written. */
  private def footer(values: Seq[FooterValue]): Option[ParquetMetadata] =
    ParquetFooter.read(file, conf, keyValuesToo = values.exists(_.dataType == DateType))

  private def columnOf(value: FooterValue): Option[String] = value match {
    case RowCount => None
    case NonNullCount(column) => Some(column)
    case Smallest(column, _) => Some(column)
    case Largest(column, _) => Some(column)
  }

  /** None when there are values, but of a type that has no bounds here. The bound over no value is null. */
  private def answer(footer: ParquetMetadata, value: FooterValue, column: Option[Summary]): Option[Any] = {
    def bound(of: Summary => Option[Long], dataType: DataType): Option[Any] = column match {
      case Some(summary) if summary.nonNull == 0 => Some(null)
      case found => found.flatMap(of).map(typed(footer, _, dataType))
    }
    value match {
      case RowCount => Some(footer.getBlocks.asScala.map(_.getRowCount).sum)
      case NonNullCount(_) => column.map(_.nonNull)
      case Smallest(_, dataType) => bound(_.least, dataType)
      case Largest(_, dataType) => bound(_.greatest, dataType)
    }
  }

  private def withFile[T](use: ParquetFileReader => T): T = {
    val reader = ParquetFileReader.open(
      HadoopInputFile.fromStatus(file, conf), HadoopReadOptions.builder(conf, file.getPath).build())
    try use(reader) finally reader.close()
  }

  private def statistics(footer: ParquetMetadata, column: String): Option[Summary] = {
    // A file written before the column was added holds no value of it.
    if (!footer.getFileMetaData.getSchema.containsField(column)) Some(Summary(0, None, None))
    else {
      val told = footer.getBlocks.asScala.map(fromStatistics(_, column))
      if (told.exists(_.isEmpty)) None
      else Some(Summary(
        told.flatten.map(_.nonNull).sum,
        told.flatMap(_.flatMap(_.least)).reduceOption((a, b) => math.min(a, b)),
        told.flatMap(_.flatMap(_.greatest)).reduceOption((a, b) => math.max(a, b))))
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
  private def fromPages(column: String): Summary = withFile(fold(_, column))

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

  private def typed(footer: ParquetMetadata, bound: Long, dataType: DataType): Any = dataType match {
    case ByteType => bound.toByte
    case ShortType => bound.toShort
    case IntegerType => bound.toInt
    case DateType =>
      val metadata = footer.getFileMetaData.getKeyValueMetaData
      val rebase = DataSourceUtils.datetimeRebaseSpec((key: String) => metadata.get(key), datesRebasedBy)
      DataSourceUtils.createDateRebaseFuncInRead(rebase.mode, "Parquet")(bound.toInt)
    case _ => bound
  }
}
