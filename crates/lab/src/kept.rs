//! Results that take hours, written to a file one a line as they come: a run that was interrupted goes on where it stopped.

use std::fs::{self, OpenOptions};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::Write as _;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// A result of a program.
pub trait OfBuild {
    /// Names the build of the program; no other build has this name.
    fn build(&self) -> &str;
}

/// What a build has kept in a file; nothing where there is none. A line that was cut short, or is of an older form, is left out.
///
/// # Errors
/// The file is there and cannot be read.
pub fn of_build<T: OfBuild + DeserializeOwned>(file: &Path, build: &str) -> Result<Vec<T>> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        text => text.map_err(Error::file("read", file))?,
    };
    let results = text.lines().filter_map(|line| serde_json::from_str::<T>(line).ok());
    Ok(results.filter(|result| result.build() == build).collect())
}

/// Adds a result as a line of JSON. The folder is made where there is none.
///
/// # Errors
/// The file cannot be written.
pub fn append<T: Serialize>(file: &Path, result: &T) -> Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
    }
    let line =
        serde_json::to_string(result).map_err(std::io::Error::from).map_err(Error::file("write", file))?
            + "\n";
    let mut opened =
        OpenOptions::new().create(true).append(true).open(file).map_err(Error::file("open", file))?;
    opened.write_all(line.as_bytes()).map_err(Error::file("write", file))
}

/// A number of a program's file that another build does not have.
///
/// # Errors
/// The file cannot be read.
pub fn number_of_build(program: &Path) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    hasher.write(&fs::read(program).map_err(Error::file("read", program))?);
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Measured(String, u32);

    impl OfBuild for Measured {
        fn build(&self) -> &str {
            &self.0
        }
    }

    #[test]
    fn a_later_call_goes_on_with_the_results_of_its_own_build() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("below/kept.jsonl");
        assert_eq!(of_build::<Measured>(&file, "this").unwrap(), []);
        for (build, number) in [("this", 1), ("other", 2), ("this", 3)] {
            append(&file, &Measured(build.to_owned(), number)).unwrap();
        }
        OpenOptions::new().append(true).open(&file).unwrap().write_all(b"[\"this\", ").unwrap();
        let kept = of_build::<Measured>(&file, "this").unwrap();
        assert_eq!(kept, [Measured("this".to_owned(), 1), Measured("this".to_owned(), 3)]);
    }
}
