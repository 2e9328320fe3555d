//! A table that its storage engine refuses: it is marked as crashed, an index of it is damaged, or the engine does not know it.

use spindoctor_model::{Finding, Remedy, TroubleKind, Window};

use super::CAUSE;
use super::remedies::advice;
use crate::draft::Draft;
use crate::logged;
use crate::rank::WARNING_FROM;

/// What a line says of its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Marked as crashed (144, 145, 1194, 1195): MyISAM, Aria, ARCHIVE and CSV do that.
    Crashed,
    /// Damaged, whatever its engine (126, 127, 1034, 1712, mysqlcheck).
    Damaged,
    /// InnoDB does not know it (1932).
    Unknown,
}

impl State {
    fn from_line(line: &str) -> Self {
        let lower = line.to_ascii_lowercase();
        let has = |signs: &[&str]| signs.iter().any(|sign| lower.contains(sign));
        if has(&["exist in engine", "error 1932 "]) {
            Self::Unknown
        } else if lower.starts_with("error    :")
            || has(&["key file for table", "index for table", "error 126 ", "error 127 ", "error 1034 "])
            || has(&["error 1712 ", "is corrupted"])
        {
            Self::Damaged
        } else {
            Self::Crashed
        }
    }
}

/// What an error log ends with, or what clients or mysqlcheck printed last.
pub(super) fn of_log(window: &Window) -> Option<Finding> {
    let (trouble, times) = logged::at_the_end(window, TroubleKind::TableCrashed)?;
    // The index of a temporary table cannot be read where its file system is full: disk-full.
    if trouble.line.contains("#sql") {
        return None;
    }
    let name = table(&trouble.line).or_else(|| name(&trouble.detail));
    let subject = name.as_ref().map_or_else(|| "A table".to_owned(), |name| format!("Table {name}"));
    let table = name.as_deref().map_or_else(|| "NAME".to_owned(), quoted);
    let state = State::from_line(&trouble.line);
    let (headline, why, remedies) = match state {
        State::Crashed => (
            format!("{subject} is marked as crashed: statements that use it fail"),
            "MyISAM and Aria mark a table as crashed where the server ended, or a disk was full, while they wrote its files, and refuse it \
             until it is repaired. Rows that were written last may be missing then. Other tables are not affected.",
            vec![repair(&table, ""), recovers_itself(&table)],
        ),
        State::Damaged => (
            format!("{subject} is damaged: statements that read the damaged part fail"),
            "An entry of an index does not fit its row, or a part of a file cannot be read: the server ended, or a disk was full, while it \
             was written; the disk, its controller or memory changed it; or a defect of the server wrote it.",
            vec![look(&table), repair(&table, "MyISAM or Aria: "), write_again(&table)],
        ),
        State::Unknown => (
            format!(
                "InnoDB does not know {}: statements that use it fail (error 1932)",
                lower_first(&subject)
            ),
            "The server has the table's definition, and InnoDB has no such table: its .ibd file is missing, its .frm file was copied \
             without it, or ibdata1 is not the one that these files belong to.",
            vec![look_at_files(&table), restore(&table)],
        ),
    };
    Some(
        Draft::new(&CAUSE, WARNING_FROM, headline)
            .why(why)
            .evidence_all(logged::evidence(trouble, times).into_iter())
            .remedies(remedies)
            .finding(),
    )
}

/// `A table` within a sentence.
fn lower_first(subject: &str) -> String {
    let mut letters = subject.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// The table that a line names.
///
/// ```text
/// Table './shop/stock' is marked as crashed and should be repaired
/// Incorrect key file for table './shop/stock.MYI'; try to repair it
/// Table 'shop.stock' doesn't exist in engine
/// ```
fn table(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("able '")?;
    name(rest.split_once('\'')?.0)
}

/// `shop.stock` of a name, or of the path of one of the table's files. None where letters of it are written as codes (`@002d`).
fn name(path: &str) -> Option<String> {
    const ENDINGS: [&str; 6] = [".MYI", ".MYD", ".MAI", ".MAD", ".ibd", ".frm"];
    let path = ENDINGS.iter().find_map(|ending| path.strip_suffix(ending)).unwrap_or(path);
    let mut parts: Vec<&str> =
        path.rsplit(['/', '\\']).take(2).filter(|part| !matches!(*part, "" | ".")).collect();
    parts.reverse();
    let name = parts.join(".");
    // A partition's files have its name behind the table's: `stock#P#p0`.
    let name = name.split('#').next().unwrap_or_default();
    let is_of_name = |letter: char| letter.is_alphanumeric() || "_$-.".contains(letter);
    (name.split('.').all(|part| !part.is_empty()) && name.chars().all(is_of_name)).then(|| name.to_owned())
}

/// A table's name as a statement has it.
fn quoted(name: &str) -> String {
    name.split('.').map(|part| format!("`{part}`")).collect::<Vec<_>>().join(".")
}

/// Of an engine that keeps rows and index in files of their own.
fn repair(table: &str, of: &str) -> Remedy {
    Remedy {
        statement: format!(
            "{of}CHECK TABLE {table}; copy its files away (.MYI and .MYD; Aria: .MAI and .MAD; with .frm or .sdi), and then REPAIR TABLE \
             {table}"
        ),
        why: "REPAIR TABLE writes the index again from the rows that it can read.".into(),
        dynamic: true,
        risk: "The table is locked meanwhile, and rows that cannot be read are lost: compare the number of rows before and after. A server \
               that ends during it leaves a table that is damaged more."
            .into(),
        undo: "The copied files in their place, while the server is stopped.".into(),
    }
}

/// So that nobody has to repair it after the next crash.
fn recovers_itself(table: &str) -> Remedy {
    Remedy {
        statement: format!(
            "ALTER TABLE {table} ENGINE=InnoDB once it is repaired; or myisam_recover_options = BACKUP,FORCE (Aria: aria_recover_options = \
             BACKUP,QUICK) in the option file, and a restart"
        ),
        why: "InnoDB recovers its tables by itself after a crash; with these options the server repairs a table of MyISAM or Aria when it \
              opens it."
            .into(),
        dynamic: false,
        risk: "ALTER TABLE copies the table, and writers wait meanwhile. A large table that is repaired when it is opened keeps its \
               statements waiting for minutes."
            .into(),
        undo: format!("ALTER TABLE {table} with its engine before; the options as they were, and a restart"),
    }
}

/// Which engine it has decides what cures it.
fn look(table: &str) -> Remedy {
    advice(
        format!("SHOW CREATE TABLE {table} (its ENGINE), and CHECK TABLE {table}"),
        "REPAIR TABLE is for MyISAM, Aria, ARCHIVE and CSV; InnoDB has another remedy.",
        "CHECK TABLE reads the whole table, and a page of InnoDB that is badly damaged may end the server: have a backup first.",
    )
}

/// Of InnoDB.
fn write_again(table: &str) -> Remedy {
    advice(
        format!(
            "InnoDB: ALTER TABLE {table} FORCE; where one secondary index alone is damaged, DROP INDEX and ADD INDEX; where rows cannot be \
             read, make the table again from a replica or a backup"
        ),
        "The table and its indexes are written again from its rows.",
        "ALTER TABLE needs room for a copy, and writers may wait. It ends with an error, and changes nothing, where a row cannot be read.",
    )
}

/// What is missing of a table that InnoDB does not know.
fn look_at_files(table: &str) -> Remedy {
    advice(
        format!(
            "ls -l of the files of {table} in the data folder, and SELECT NAME FROM information_schema.INNODB_TABLES (MySQL 5.7 and \
             MariaDB: INNODB_SYS_TABLES) for it; the error log of that time"
        ),
        "Without its .ibd file the rows are gone from here; where the file is there and the list has no such table, it came from another \
         server, or ibdata1 did.",
        "Looking is safe.",
    )
}

/// The way back of such a table.
fn restore(table: &str) -> Remedy {
    Remedy {
        statement: format!(
            "Copy its files away; restore all of the data folder from one backup. Or, where its .ibd file is there: DROP TABLE {table}, \
             CREATE TABLE it with the same definition, ALTER TABLE {table} DISCARD TABLESPACE, the .ibd file into its place, ALTER TABLE \
             {table} IMPORT TABLESPACE"
        ),
        why: "InnoDB's files belong together: a single one is taken in by IMPORT TABLESPACE alone.".into(),
        dynamic: true,
        risk: "DROP TABLE removes what is left of its files: have the copy first. A file of another version or row format is \
               refused."
            .into(),
        undo: "The copied files in their place, while the server is stopped.".into(),
    }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::{LoggedTrouble, Severity};

    use super::*;

    /// The findings of a log that ends with such a line.
    fn found(line: &str, detail: &str) -> Vec<Finding> {
        let trouble = LoggedTrouble {
            kind: TroubleKind::TableCrashed,
            times: 3,
            line: line.to_owned(),
            detail: detail.to_owned(),
            ..LoggedTrouble::default()
        };
        crate::diagnose(&Window { error_log: vec![trouble], ..Window::default() }).findings
    }

    #[test]
    fn each_state_of_a_table_is_a_warning_with_the_table_and_its_remedies() {
        for (line, detail, headline, first, remedies) in [
            (
                "[ERROR] mysqld: Table './shop/stock' is marked as crashed and should be repaired",
                "",
                "Table shop.stock is marked as crashed: statements that use it fail",
                "CHECK TABLE `shop`.`stock`; copy its files away",
                2,
            ),
            (
                "ERROR 145 (HY000): La tabla debe ser reparada",
                "",
                "A table is marked as crashed: statements that use it fail",
                "CHECK TABLE NAME;",
                2,
            ),
            (
                "error    : Corrupt",
                "shop.stock",
                "Table shop.stock is damaged: statements that read the damaged part fail",
                "SHOW CREATE TABLE `shop`.`stock`",
                3,
            ),
            (
                "ERROR 126 (HY000): Incorrect key file for table '/data/shop/stock.MYI'; try to repair it",
                "",
                "Table shop.stock is damaged: statements that read the damaged part fail",
                "SHOW CREATE TABLE `shop`.`stock`",
                3,
            ),
            (
                "(1712, 'Index by_name is corrupted')",
                "",
                "A table is damaged: statements that read the damaged part fail",
                "SHOW CREATE TABLE NAME",
                3,
            ),
            (
                "Error    : Table 'shop.stock' doesn't exist in engine",
                "",
                "InnoDB does not know table shop.stock: statements that use it fail (error 1932)",
                "ls -l of the files of `shop`.`stock`",
                2,
            ),
        ] {
            let all = found(line, detail);
            assert_eq!(all.len(), 1, "{line}: {all:#?}");
            assert_eq!((all[0].cause.as_str(), all[0].severity), (CAUSE.name, Severity::Warning), "{line}");
            assert_eq!(all[0].headline, headline, "{line}");
            assert!(all[0].remedies[0].statement.starts_with(first), "{:?}", all[0].remedies);
            assert_eq!(all[0].remedies.len(), remedies, "{line}");
        }
    }

    #[test]
    fn only_engines_with_files_of_their_own_are_repaired() {
        let statements = |line: &str| -> String {
            found(line, "").remove(0).remedies.into_iter().map(|remedy| remedy.statement).collect()
        };
        let damaged = statements("ERROR 1034 (HY000): Index for table 'stock' is corrupt; try to repair it");
        assert!(damaged.contains("MyISAM or Aria: CHECK TABLE") && damaged.contains("InnoDB: ALTER TABLE"));
        let unknown = statements("ERROR 1932 (42S02): Table 'shop.stock' doesn't exist in engine");
        assert!(!unknown.contains("REPAIR TABLE") && unknown.contains("IMPORT TABLESPACE"), "{unknown}");
    }

    #[test]
    fn a_temporary_table_is_a_matter_of_its_disk() {
        let all = found(
            "ERROR 126 (HY000): Incorrect key file for table '/tmp/#sql_4d2_0.MYI'; try to repair it",
            "",
        );
        let causes: Vec<&str> = all.iter().map(|finding| finding.cause.as_str()).collect();
        assert_eq!(causes, ["disk-full"]);
        assert!(all[0].headline.contains("(/tmp/#sql_4d2_0.MYI)"), "{}", all[0].headline);
    }

    #[test]
    fn a_table_is_named_as_statements_have_it_or_not_at_all() {
        for (path, wanted) in [
            ("./shop/stock", Some("shop.stock")),
            (".\\shop\\stock.MYI", Some("shop.stock")),
            ("/var/lib/mysql/shop/stock#P#p0.MYI", Some("shop.stock")),
            ("shop.stock", Some("shop.stock")),
            ("stock", Some("stock")),
            ("./shop/my@002dstock", None),
            ("stock; DROP", None),
            ("", None),
            ("..", None),
        ] {
            assert_eq!(name(path).as_deref(), wanted, "{path}");
        }
        assert_eq!(quoted("shop.my-stock"), "`shop`.`my-stock`");
    }
}
