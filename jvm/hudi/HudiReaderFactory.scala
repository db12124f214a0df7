package org.apache.spark.sql.lakeshift.hudi

import java.io.Closeable

import org.apache.spark.sql.catalyst.{FileSourceOptions, InternalRow}
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader}
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.datasources.v2.FilePartitionReaderFactory
import org.apache.spark.sql.vectorized.ColumnarBatch

/**
 * Runs Hudi's reader in a task. Spark's own factory around it skips missing or corrupt files when told to, and
 * serves `input_file_name()`.
 */
final case class HudiReaderFactory(
    read: PartitionedFile => Iterator[InternalRow],
    batches: Boolean,
    limit: Option[Int],
    override protected val options: FileSourceOptions)
    extends FilePartitionReaderFactory {

  override def supportColumnarReads(partition: InputPartition): Boolean = batches

  override def buildReader(file: PartitionedFile): PartitionReader[InternalRow] = readerOf[InternalRow](file)

  // The iterator's declared type is rows, as everywhere in Spark's file sources; what it yields are batches.
  override def buildColumnarReader(file: PartitionedFile): PartitionReader[ColumnarBatch] =
    readerOf[ColumnarBatch](file)

  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    upToLimit(super.createReader(partition), (_: InternalRow) => 1)

  override def createColumnarReader(partition: InputPartition): PartitionReader[ColumnarBatch] =
    upToLimit(super.createColumnarReader(partition), (batch: ColumnarBatch) => batch.numRows())

  private def readerOf[T](file: PartitionedFile): PartitionReader[T] =
    new IteratorReader[T](read(file).asInstanceOf[Iterator[T]])

  private def upToLimit[T](reader: PartitionReader[T], rows: T => Int): PartitionReader[T] =
    limit.map(new LimitedReader[T](reader, _, rows)).getOrElse(reader)
}

/** An iterator of one file's rows or batches, closed as soon as the file is done with. */
final class IteratorReader[T](values: Iterator[T]) extends PartitionReader[T] {
  private var current: T = _

  override def next(): Boolean = values.hasNext && {
    current = values.next()
    true
  }
  override def get(): T = current
  override def close(): Unit = values match {
    case closeable: Closeable => closeable.close()
    case _ => // Hudi closes it at the end of the task
  }
}

/** Stops once as many rows were read as the query can use. */
final class LimitedReader[T](reader: PartitionReader[T], limit: Int, rows: T => Int) extends PartitionReader[T] {
  private var given = 0L

  override def next(): Boolean = given < limit && reader.next() && {
    given += rows(reader.get())
    true
  }
  override def get(): T = reader.get()
  override def close(): Unit = reader.close()
}
