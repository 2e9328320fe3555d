//! Option files are read as MySQL's own `my_print_defaults` reads them.

#![expect(clippy::unwrap_used, reason = "what tests share stands outside of #[test] functions")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use spindoctor_collect::mysql::option_file::Reader;
use spindoctor_lab::{Home, Installation, Which};

const GROUPS: [&str; 6] = ["client", "mysqld", "mysql", "mysqld_safe", "client-server", "odd"];

/// Lines that are easily read in another way.
const ODD: &str = r##"
# comment
; comment
[odd]
plain = value
no_value
empty=
spaces   =   a b  c   
hash = a#b
quoted-hash = "a#b" # c
single = 'a#b'
mixed = "a'b#c" # d
inner = a"b"c
apostrophe = it's # not a comment
half = "a
lone = "
two = "a" "b"
escapes = \s\t\\\x\"\'
end = a\
escaped-quote = "a\"b#c"
unquoted-escape = a\#b
equals = a=b=c
 indented = yes
tab	=	tabbed	
under_score-dash = 1
loose-anything = 1
[ODD]
upper-group = 1
[odd ]
padded-group = 1
[ odd]
not-this-group = 1
[odd] # comment
commented-group = 1
[odd
"##;

/// How to start `my_print_defaults` of an installed server: by the loader that the server was given.
fn my_print_defaults(installation: &Installation) -> impl Fn() -> Command {
    let of_server = |question: &str| {
        let output = Command::new("patchelf").arg(question).arg(&installation.server).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let (loader, libraries) = (of_server("--print-interpreter"), of_server("--print-rpath"));
    let program = installation.basedir.join("bin/my_print_defaults");
    move || {
        let mut command = Command::new(&loader);
        command.args(["--library-path", &libraries]).arg(&program);
        command
    }
}

fn printed_by(mut program: Command, file: &Path) -> Vec<String> {
    let output = program
        .arg(format!("--defaults-file={}", file.display()))
        .arg("--show")
        .args(GROUPS)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    // Only the name has `_` and `-` alike.
    let fold = |line: &str| match line.split_once('=') {
        Some((key, value)) => format!("{}={value}", key.replace('_', "-")),
        None => line.replace('_', "-"),
    };
    printed.lines().map(fold).collect()
}

fn read_here(file: &Path) -> Vec<String> {
    let groups = GROUPS.map(str::to_owned);
    let mut reader = Reader::new(&groups, Path::new("/"));
    reader.read(file).unwrap();
    let settings = reader.finish().settings;
    let shown = |setting: &spindoctor_collect::mysql::option_file::Setting| match &setting.value {
        Some(value) => format!("--{}={value}", setting.key),
        None => format!("--{}", setting.key),
    };
    settings.iter().map(shown).collect()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// Each text is read here and by `my_print_defaults`: how many there were, and how many options in them.
fn compare(texts: &[(String, Vec<u8>)]) -> (usize, usize) {
    let installation = Installation::find(&Home::open().unwrap(), &Which::Mysql, &|_| ()).unwrap();
    let my_print_defaults = my_print_defaults(&installation);
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("my.cnf");
    let (mut compared, mut options) = (0, 0);
    for (name, text) in texts {
        std::fs::write(&copy, text).unwrap();
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o600)).unwrap();
        let theirs = printed_by(my_print_defaults(), &copy);
        assert_eq!(read_here(&copy), theirs, "{name}");
        (compared, options) = (compared + 1, options + theirs.len());
    }
    (compared, options)
}

#[test]
fn option_files_are_read_as_mysql_reads_them() {
    let mut texts: Vec<(String, Vec<u8>)> = Vec::new();
    for document in spindoctor_corpus::names("written/option-files").unwrap() {
        let parts = spindoctor_corpus::document(&document).unwrap().parts;
        let files = parts.into_iter().filter(|part| part.name.ends_with(".cnf"));
        // Where others are included, they would have to be there.
        let alone = files.filter(|part| !part.text.contains("!include"));
        texts.extend(
            alone.map(|part| (format!("{document}: {}", part.name), format!("{}\n", part.text).into_bytes())),
        );
    }
    texts.extend(ODD.lines().map(|line| (line.to_owned(), format!("[odd]\n{line}\n").into_bytes())));
    let (compared, options) = compare(&texts);
    assert!(compared > 40 && options > 60, "{compared} texts, {options} options");
}

/// Files of other projects.
mod shared_fixtures {
    use super::*;

    #[test]
    fn option_files_are_read_as_mysql_reads_them() {
        let Some(folder) = spindoctor_corpus::shared("fixtures/mycnf") else { return };
        let texts: Vec<(String, Vec<u8>)> = files_below(&folder)
            .into_iter()
            .map(|path| (path.display().to_string(), std::fs::read(&path).unwrap()))
            .filter(|(_, text)| !text.starts_with(b"--"))
            .collect();
        let (compared, options) = compare(&texts);
        assert!(compared > 15 && options > 150, "{compared} texts, {options} options");
    }
}
