//! The finished rows as CSV and Parquet.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type as Schema;

use super::journal::{Journal, failed, fields};
use super::row::{Column, ERROR, Type};
use super::{Error, guard};

/// Names of the results.
pub(super) const CSV: &str = "results.csv";
pub(super) const PARQUET: &str = "results.parquet";
/// Rows that are held at once.
const GROUP: usize = 1 << 13;

/// Rows without numbers, and why the first has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Failed {
    pub(super) count: u64,
    pub(super) first: Option<String>,
}

/// Writes `results.csv` and `results.parquet` of a complete journal: whole files in place of the same ones of
/// an earlier run, or none.
pub(super) fn write(journal: &Journal, folder: &Path) -> Result<Failed, Error> {
    let columns = &journal.header.columns;
    let (csv, parquet) = (folder.join(CSV), folder.join(PARQUET));
    let (csv_part, parquet_part) = (part(&csv), part(&parquet));
    let csv_error = |source| failed(&csv_part, "written", source);
    let mut text = BufWriter::new(File::create(&csv_part).map_err(csv_error)?);
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let mut header = csv::Writer::from_writer(Vec::new());
    header
        .write_record(&names)
        .map_err(|error| csv_error(error.into()))?;
    let header = header.into_inner().unwrap_or_default();
    text.write_all(&header).map_err(csv_error)?;

    let at_error = columns.iter().position(|column| column.name == ERROR);
    let mut failures = Failed::default();
    let mut groups = Groups::create(&parquet_part, columns)?;
    journal.each(|body| {
        text.write_all(body)
            .and_then(|()| text.write_all(b"\n"))
            .map_err(csv_error)?;
        let row = fields(body).unwrap_or_default();
        if let Some(message) = at_error
            .and_then(|at| row.get(at))
            .filter(|text| !text.is_empty())
        {
            failures.count += 1;
            failures.first.get_or_insert_with(|| message.clone());
        }
        groups.add(row)
    })?;
    groups.close()?;
    let file = text
        .into_inner()
        .map_err(|error| csv_error(error.into_error()))?;
    file.sync_all().map_err(csv_error)?;
    guard::replace(&[(&csv_part, &csv), (&parquet_part, &parquet)])?;
    Ok(failures)
}

/// What a file is called until it is whole.
pub(super) fn part(path: &Path) -> PathBuf {
    path.with_added_extension("part")
}

/// A Parquet file that is written in groups of rows.
struct Groups {
    path: PathBuf,
    columns: Vec<Column>,
    writer: SerializedFileWriter<File>,
    rows: Vec<Vec<String>>,
}

impl Groups {
    fn create(path: &Path, columns: &[Column]) -> Result<Self, Error> {
        let file = File::create(path).map_err(|source| failed(path, "written", source))?;
        let writer = schema(columns).and_then(|schema| {
            SerializedFileWriter::new(
                file,
                Arc::new(schema),
                Arc::new(WriterProperties::builder().build()),
            )
        });
        Ok(Self {
            path: path.to_owned(),
            columns: columns.to_vec(),
            writer: writer.map_err(|source| failed_parquet(path, source))?,
            rows: Vec::with_capacity(GROUP),
        })
    }

    fn add(&mut self, row: Vec<String>) -> Result<(), Error> {
        self.rows.push(row);
        if self.rows.len() == GROUP {
            self.flush()
                .map_err(|source| failed_parquet(&self.path, source))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ParquetError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        let mut at = 0;
        while let Some(mut column) = group.next_column()? {
            let texts = self
                .rows
                .iter()
                .map(|row| row.get(at).map_or("", String::as_str));
            put(&mut column, self.columns[at].kind, texts)?;
            column.close()?;
            at += 1;
        }
        group.close()?;
        self.rows.clear();
        Ok(())
    }

    fn close(mut self) -> Result<(), Error> {
        self.flush()
            .and_then(|()| self.writer.close())
            .map(|_| ())
            .map_err(|source| failed_parquet(&self.path, source))
    }
}

fn failed_parquet(path: &Path, source: ParquetError) -> Error {
    Error::Parquet {
        path: path.to_owned(),
        source,
    }
}

fn schema(columns: &[Column]) -> Result<Schema, ParquetError> {
    let fields = columns.iter().map(|column| {
        let (physical, logical) = match column.kind {
            Type::Int => (Physical::INT64, None),
            Type::Float => (Physical::DOUBLE, None),
            Type::Bool => (Physical::BOOLEAN, None),
            Type::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        Schema::primitive_type_builder(&column.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
    });
    Schema::group_type_builder("sweep")
        .with_fields(fields.collect::<Result<_, _>>()?)
        .build()
}

/// Writes a column; an empty text is a null.
fn put<'t>(
    column: &mut SerializedColumnWriter<'_>,
    kind: Type,
    texts: impl Iterator<Item = &'t str> + Clone,
) -> Result<(), ParquetError> {
    let levels: Vec<i16> = texts
        .clone()
        .map(|text| i16::from(!text.is_empty()))
        .collect();
    let there = texts.filter(|text| !text.is_empty());
    match kind {
        Type::Int => {
            column
                .typed::<Int64Type>()
                .write_batch(&parsed(there)?, Some(&levels), None)?
        }
        Type::Float => {
            column
                .typed::<DoubleType>()
                .write_batch(&parsed(there)?, Some(&levels), None)?
        }
        Type::Bool => {
            column
                .typed::<BoolType>()
                .write_batch(&parsed(there)?, Some(&levels), None)?
        }
        Type::Text => {
            let values: Vec<ByteArray> = there.map(ByteArray::from).collect();
            column
                .typed::<ByteArrayType>()
                .write_batch(&values, Some(&levels), None)?
        }
    };
    Ok(())
}

/// Texts as values.
fn parsed<'t, T: std::str::FromStr>(
    there: impl Iterator<Item = &'t str>,
) -> Result<Vec<T>, ParquetError> {
    let wrong = |text| ParquetError::General(format!("`{text}` is not of its column's type"));
    there
        .map(|text| text.parse().map_err(|_| wrong(text)))
        .collect()
}
