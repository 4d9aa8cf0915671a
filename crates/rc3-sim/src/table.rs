//! CSV with a header line: rows of a type, or an error that names file, line and column.
//!
//! Lines that begin with `#` and white space around fields count for nothing.

use csv::{ErrorKind, Position, ReaderBuilder, StringRecord, Trim};
use rc3_text::document::quoted;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// Why a CSV file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}:{line}: {message}")]
pub struct TableError {
    /// The file's name, as it was given.
    pub file: String,
    /// The line, counted from 1.
    pub line: u64,
    /// What is wrong.
    pub message: String,
}

/// The rows of `text` with their line numbers; `columns` must be in the header.
pub(crate) fn rows<T: DeserializeOwned>(
    text: &str,
    file: &str,
    columns: &[&str],
) -> Result<Vec<(u64, T)>, TableError> {
    let mut reader = ReaderBuilder::new().comment(Some(b'#')).trim(Trim::All).from_reader(text.as_bytes());
    let error = |error| describe(error, text, file, None);
    let header = reader.headers().map_err(error)?.clone();
    let missing: Vec<&str> =
        columns.iter().filter(|column| !header.iter().any(|name| name == **column)).copied().collect();
    if !missing.is_empty() {
        let line = line_at(&Position::new(), text);
        let message = format!("there is no column {}", quoted(&missing));
        return Err(TableError { file: file.to_owned(), line, message });
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(error)?;
        let line = record.position().map_or(1, |position| line_at(position, text));
        let row = record.deserialize(Some(&header));
        let row = row.map_err(|error| TableError { line, ..describe(error, text, file, Some(&header)) })?;
        rows.push((line, row));
    }
    if rows.is_empty() {
        return Err(TableError { file: file.to_owned(), line: 1, message: "there are no rows".to_owned() });
    }
    Ok(rows)
}

/// The line of the record that is found at a position, which may be that of comments and empty lines before it.
fn line_at(position: &Position, text: &str) -> u64 {
    let at = usize::try_from(position.byte()).unwrap_or(usize::MAX);
    let skipped = text.get(at..).unwrap_or_default().lines();
    let skipped = skipped.take_while(|line| line.starts_with('#') || line.is_empty()).count();
    position.line() + skipped as u64
}

fn describe(error: csv::Error, text: &str, file: &str, header: Option<&StringRecord>) -> TableError {
    let line = error.position().map_or(1, |position| line_at(position, text));
    let message = match error.kind() {
        ErrorKind::Deserialize { err, .. } => {
            let at = err.field().and_then(|at| header?.get(usize::try_from(at).ok()?));
            match at {
                Some(column) => format!("column `{column}`: {}", err.kind()),
                None => err.kind().to_string(),
            }
        }
        ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} fields where the header has {expected_len}")
        }
        _ => error.to_string(),
    };
    TableError { file: file.to_owned(), line, message }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Row {
        a: String,
        n: u32,
    }

    fn error(text: &str) -> String {
        rows::<Row>(text, "x.csv", &["a", "n"]).unwrap_err().to_string()
    }

    #[test]
    fn comments_and_spaces_count_for_nothing() {
        let rows = rows::<Row>("# made by hand\na, n\n b b ,1\n# more\n\nc,2\n", "x.csv", &["n"]).unwrap();
        assert_eq!(rows, [(3, Row { a: "b b".into(), n: 1 }), (6, Row { a: "c".into(), n: 2 })]);
    }

    #[test]
    fn errors_name_file_line_and_column() {
        assert_eq!(error("a,n\nb,1\nc,x\n"), "x.csv:3: column `n`: invalid digit found in string");
        assert_eq!(error("a,n\n#\n#\nb,x\n"), "x.csv:4: column `n`: invalid digit found in string");
        assert_eq!(error("a,n\n#\nb\n"), "x.csv:3: 1 fields where the header has 2");
        assert_eq!(error("a,n\nb\n"), "x.csv:2: 1 fields where the header has 2");
        assert_eq!(error("a,m\nb,1\n"), "x.csv:1: there is no column `n`");
        assert_eq!(error("# links\nb,m\nb,1\n"), "x.csv:2: there is no column `a`, `n`");
        assert_eq!(error("a,n\n"), "x.csv:1: there are no rows");
    }
}
