//! Where the lab keeps what it installs, prepares and runs: one folder, `$SPINDOCTOR_LAB`.
//!
//! ```text
//! mysql/ mysql-5.7/ ...  installed servers (see install)
//! template/NAME/         initialised data folders, copied for each server (see template)
//! servers/NAME/          one folder for each server that is up (see record)
//! *.lock                 locks of those who work on the above
//! ```

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The lab's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

/// A lock that ends when it is dropped, or when its process does.
#[derive(Debug)]
#[must_use]
pub(crate) struct Lock(#[expect(dead_code, reason = "the open file is the lock")] File);

impl Home {
    /// `$SPINDOCTOR_LAB`, `$XDG_CACHE_HOME/spindoctor/lab` or `~/.cache/spindoctor/lab`; made if need be.
    pub fn open() -> Result<Self> {
        let from = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let root = from("SPINDOCTOR_LAB")
            .or_else(|| from("XDG_CACHE_HOME").map(|cache| cache.join("spindoctor/lab")))
            .or_else(|| from("HOME").map(|home| home.join(".cache/spindoctor/lab")))
            .ok_or_else(|| Error::Unable {
                what: "the lab's folder",
                because: "neither HOME nor SPINDOCTOR_LAB is set".into(),
            })?;
        Self::at(&root)
    }

    /// A lab in a given folder, made if need be.
    pub fn at(root: &Path) -> Result<Self> {
        create_private_dir(root)?;
        let root = root.canonicalize().map_err(Error::file("open", root))?;
        Ok(Self { root })
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where servers that are up have their folders.
    pub(crate) fn servers(&self) -> PathBuf {
        self.root.join("servers")
    }

    /// Where initialised data folders are kept.
    pub(crate) fn templates(&self) -> PathBuf {
        self.root.join("template")
    }

    /// Waits until nobody else holds the lock of this name, and takes it.
    pub(crate) fn lock(&self, name: &str) -> Result<Lock> {
        let path = self.root.join(format!("{name}.lock"));
        let file = File::create(&path).map_err(Error::file("create", &path))?;
        file.lock().map_err(Error::file("lock", &path))?;
        Ok(Lock(file))
    }

    /// A new folder for work in progress, and removes what earlier, interrupted work left under the
    /// same name: call it under the lock of that work.
    pub(crate) fn workshop(&self, name: &str) -> Result<tempfile::TempDir> {
        let prefix = format!(".{name}-");
        for entry in fs::read_dir(&self.root).map_err(Error::file("list", &self.root))?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                remove_dir(&entry.path())?;
            }
        }
        tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(&self.root)
            .map_err(Error::file("create a folder in", &self.root))
    }
}

/// Makes a folder, and its parents, that only its owner can enter.
pub(crate) fn create_private_dir(path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(Error::file("create the folder", path))
}

/// Removes a folder and what is in it; it is no error where there is none.
pub(crate) fn remove_dir(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::File { doing: "remove", path: path.to_owned(), error })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workshop_clears_what_interrupted_work_left_of_the_same_name_only() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path()).unwrap();
        let left = home.workshop("mysql").unwrap().keep();
        let other = home.workshop("mariadb").unwrap();
        let new = home.workshop("mysql").unwrap();
        assert!(!left.exists() && other.path().exists() && new.path().exists());
    }
}
