//! Raw data: a line per observation, comma-separated, the first line naming the columns.

use crate::LabError;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file of raw data.
#[derive(Debug)]
pub struct Csv {
    path: PathBuf,
    file: BufWriter<File>,
    columns: usize,
}

impl Csv {
    /// A new file with these columns; their names carry their units (`delay_us`).
    ///
    /// # Errors
    /// [`LabError::Io`] if it cannot be written.
    pub fn create(path: &Path, columns: &[&str]) -> Result<Self, LabError> {
        let file = File::create(path).map_err(LabError::io(format!("create {}", path.display())))?;
        let mut csv = Self { path: path.to_owned(), file: BufWriter::new(file), columns: columns.len() };
        csv.row(columns)?;
        Ok(csv)
    }

    /// Writes an observation.
    ///
    /// # Errors
    /// [`LabError::Io`] if it cannot be written.
    ///
    /// # Panics
    /// If it has not as many values as there are columns.
    pub fn row<T: ToString>(&mut self, values: &[T]) -> Result<(), LabError> {
        assert_eq!(values.len(), self.columns, "a row of {} has other columns", self.path.display());
        let line: Vec<String> = values.iter().map(|value| quoted(&value.to_string())).collect();
        writeln!(self.file, "{}", line.join(",")).map_err(LabError::io(format!("write {}", self.path.display())))
    }

    /// Lets what was written so far be seen, for runs that take long.
    ///
    /// # Errors
    /// [`LabError::Io`] if it cannot be written.
    pub fn flush(&mut self) -> Result<(), LabError> {
        self.file.flush().map_err(LabError::io(format!("write {}", self.path.display())))
    }

    /// Ends the file.
    ///
    /// # Errors
    /// [`LabError::Io`] if it cannot be written.
    pub fn finish(mut self) -> Result<(), LabError> {
        self.flush()
    }
}

fn quoted(value: &str) -> String {
    if value.contains([',', '"', '\n']) { format!("\"{}\"", value.replace('"', "\"\"")) } else { value.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_commas_and_quotes_are_quoted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.csv");
        let mut csv = Csv::create(&path, &["name", "value"]).unwrap();
        csv.row(&["a,\"b\"", "1"]).unwrap();
        csv.finish().unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "name,value\n\"a,\"\"b\"\"\",1\n");
    }
}
