package org.apache.spark.sql.lakeshift.hudi

import org.apache.hadoop.fs.FileStatus

import org.apache.spark.sql.execution.datasources.HadoopFsRelation
import org.apache.spark.sql.execution.datasources.parquet.ParquetOptions
import org.apache.spark.util.SerializableConfiguration

/** What reading a relation's footers takes besides their files. */
final case class FooterSource(conf: SerializableConfiguration, datesRebasedBy: String) {
  def reader(file: FileStatus): FooterReader = new FooterReader(file, conf.value, datesRebasedBy)
}

object FooterSource {
  def of(relation: HadoopFsRelation): FooterSource = {
    val session = relation.sparkSession.sessionState
    FooterSource(
      new SerializableConfiguration(session.newHadoopConfWithOptions(relation.options)),
      new ParquetOptions(relation.options, session.conf).datetimeRebaseModeInRead)
  }
}
