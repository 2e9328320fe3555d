//! Runs the system's programs that the lab needs, and installs the missing ones.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Error, Result};

/// Receives what is being done, in a short line each.
pub type Progress<'a> = &'a dyn Fn(&str);

/// Runs a program to its end and returns what it printed.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(Error::file("run", program.as_ref()))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(printed);
    }
    let said = printed + &String::from_utf8_lossy(&output.stderr);
    Err(Error::Program { program, status: output.status.to_string(), said: last_lines(&said, 12) })
}

/// The last lines of a text.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Where a program is on PATH.
pub(crate) fn find(program: impl AsRef<OsStr>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program.as_ref())).find(|file| file.is_file())
}

/// Makes sure that a program is there: as root its Debian package is installed.
pub(crate) fn ensure(program: &str, package: &str, progress: Progress<'_>) -> Result<PathBuf> {
    provide(program, package, progress, || find(program))
}

/// Makes sure that a library is there, as [`ensure`] does.
pub(crate) fn ensure_library(name: &str, package: &str, progress: Progress<'_>) -> Result<PathBuf> {
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    let folders =
        [format!("/usr/lib/{triplet}"), format!("/lib/{triplet}"), "/usr/lib64".into(), "/usr/lib".into()];
    provide(name, package, progress, || {
        folders.iter().map(|folder| Path::new(folder).join(name)).find(|file| file.exists())
    })
}

fn provide(
    wanted: &str,
    package: &str,
    progress: Progress<'_>,
    find_it: impl Fn() -> Option<PathBuf>,
) -> Result<PathBuf> {
    if let Some(found) = find_it() {
        return Ok(found);
    }
    if is_root() && find("apt-get").is_some() {
        progress(&format!("installing {package}"));
        let install = || {
            run(Command::new("apt-get")
                .args(["install", "-y", "--no-install-recommends", package])
                .env("DEBIAN_FRONTEND", "noninteractive"))
        };
        if install().is_err() {
            run(Command::new("apt-get").arg("update"))?;
            install()?;
        }
    }
    find_it().ok_or_else(|| Error::Missing {
        program: wanted.into(),
        how: format!("apt-get install {package} (as root)"),
    })
}

/// True where the lab runs as root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_program_says_what_it_printed_last() {
        let error = run(Command::new("sh").args(["-c", "echo first; echo second >&2; exit 3"])).unwrap_err();
        assert_eq!(error.to_string(), "sh failed (exit status: 3):\nfirst\nsecond");
    }

    #[test]
    fn the_last_lines_of_a_short_text_are_all_of_it() {
        assert_eq!(last_lines("a\nb\n", 12), "a\nb");
        assert_eq!(last_lines("a\nb\nc", 2), "b\nc");
    }
}
