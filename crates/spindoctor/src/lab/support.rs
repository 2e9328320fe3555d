//! The support table: what a run of the matrix saw, as lines of text and as the page of the repository.

use std::fmt::Write as _;

use jiff::Timestamp;
use spindoctor_lab::matrix::{CELLS, Outcome, PLACES, Row, Seen};
use spindoctor_lab::{KNOWN, Known};

/// A row as text: what is not simply right, and how many are.
pub fn text(row: &Row) -> String {
    let mut text = String::new();
    for cell in &row.cells {
        let name = format!("{}: {}", cell.command, cell.shows);
        let _infallible = match &cell.seen {
            Ok(Seen::Run) if cell.looks > 1 => writeln!(text, "  second look   {name}"),
            Ok(Seen::Run) => Ok(()),
            Ok(Seen::Unavailable(because)) => {
                writeln!(text, "  unavailable   {name}\n                because {because}")
            }
            Ok(Seen::CannotSuffer(because)) => {
                writeln!(text, "  not made      {name}\n                because {because}")
            }
            Err(wrong) => writeln!(text, "  WRONG         {name}\n{}", indented(wrong)),
        };
    }
    let right = right(row);
    let wrong = row.wrong().count();
    let place = row.place.as_ref().map(|place| format!(", {place}")).unwrap_or_default();
    format!(
        "{} ({}{place}): {right} run, {} unavailable there, {wrong} wrong, in {:.0} s\n{text}",
        row.server,
        row.version,
        row.cells.len() - right - wrong,
        row.took_s
    )
}

fn right(row: &Row) -> usize {
    row.cells.iter().filter(|cell| cell.seen == Ok(Seen::Run)).count()
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("                {line}\n")).collect()
}

/// The page: one line for each cell, one column for each server, and the reasons of what is unavailable below.
pub fn markdown(rows: &[Row], machine: &str, commit: Option<&str>) -> String {
    let date = Timestamp::now().strftime("%Y-%m-%d");
    let commit = commit.map(|commit| format!(" (commit {commit})")).unwrap_or_default();
    let mut reasons: Vec<String> = Vec::new();
    let mut page = format!(
        "# Supported servers\n\nWritten by `make matrix`, never by hand: {date}, {machine}{commit}. Each command was run on each \
         server, while the server had a trouble that is known, and its answer was held against what is known of the server.\n\n\
         | command | what its answer is held against |"
    );
    let (plain, placed): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.place.is_none());
    for row in &plain {
        let _infallible = write!(page, " {} |", row.server.replacen('-', " ", 1));
    }
    page.push_str("\n|---|---|");
    page.push_str(&"---|".repeat(plain.len()));
    page.push('\n');
    for cell in CELLS {
        let _infallible = write!(page, "| `{}` | {} |", cell.command, cell.shows);
        for row in &plain {
            let found =
                row.cells.iter().find(|found| found.command == cell.command && found.shows == cell.shows);
            let _infallible = write!(
                page,
                " {} |",
                found.map_or_else(|| "not run".into(), |found| said(found, &mut reasons))
            );
        }
        page.push('\n');
    }
    let places = places(&placed, &mut reasons);
    page.push_str(
        "\nrun: the answer is right. A number: the program says that this cannot be had there, or the server cannot suffer so, \
         because\n\n",
    );
    for (at, reason) in reasons.iter().enumerate() {
        let _infallible = writeln!(page, "{}. {reason}", at + 1);
    }
    page.push_str(&places);
    page.push_str("\n## The servers\n\n| server | version | from | time of its row |\n|---|---|---|---|\n");
    for row in plain {
        let origin =
            KNOWN.iter().find(|known| known.name == row.server).map_or_else(String::new, Known::origin);
        let _infallible =
            writeln!(page, "| {} | {} | {origin} | {:.0} s |", row.server, row.version, row.took_s);
    }
    page.push_str(
        "\nNot run, because no registry that the lab installs from has them: MySQL 8.4, Percona Server, MariaDB 10.6 and 12.\n",
    );
    page
}

/// Servers that are not as their packages make them: how many of the commands above were right there, and what was not.
fn places(rows: &[&Row], reasons: &mut Vec<String>) -> String {
    let mut page =
        "\n## Odd places\n\nThe same commands on servers that are not as their packages make them.\n\n\
                    | place | how the server differs | server | commands |\n|---|---|---|---|\n"
            .to_owned();
    for place in PLACES {
        for row in rows.iter().filter(|row| row.place.as_deref() == Some(place.name)) {
            let mut others = String::new();
            for cell in row.cells.iter().filter(|cell| cell.seen != Ok(Seen::Run)) {
                let _infallible = write!(others, "; `{}` {}", cell.command, said(cell, reasons));
            }
            let (name, says) = (place.name, place.says);
            let _infallible =
                writeln!(page, "| {name} | {says} | {} | {} run{others} |", row.version, right(row));
        }
    }
    page
}

/// What stands in a place of the table.
fn said(cell: &Outcome, reasons: &mut Vec<String>) -> String {
    let Ok(seen) = &cell.seen else { return "**WRONG**".to_owned() };
    let Some(because) = seen.why_not() else { return "run".to_owned() };
    let at = reasons.iter().position(|reason| reason == because).unwrap_or_else(|| {
        reasons.push(because.to_owned());
        reasons.len() - 1
    });
    format!("no ({})", at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(server: &str, seen: &Result<Seen, String>) -> Row {
        let cells = CELLS.iter().map(|cell| Outcome {
            command: cell.command.into(),
            shows: cell.shows.into(),
            seen: seen.clone(),
            looks: 1,
        });
        Row {
            server: server.into(),
            version: "MySQL 5.7.22".into(),
            place: None,
            cells: cells.collect(),
            took_s: 9.0,
        }
    }

    #[test]
    fn the_page_has_a_line_for_each_cell_and_each_reason_once() {
        let lacks = Seen::Unavailable("the server has no such thing".into());
        let odd = Row { place: Some("read-only".into()), ..row("mysql-5.7", &Ok(lacks.clone())) };
        let page = markdown(
            &[row("mysql-5.7", &Ok(Seen::Run)), row("mysql-5.5", &Ok(lacks.clone())), odd],
            "a machine",
            Some("0123"),
        );
        let lines = CELLS.iter().map(|cell| format!("; `{}` no (1)", cell.command)).collect::<String>();
        assert!(page.contains(&format!("| MySQL 5.7.22 | 0 run{lines} |")), "{page}");
        assert_eq!(page.matches("| run | no (1) |").count(), CELLS.len(), "{page}");
        assert_eq!(page.matches("the server has no such thing").count(), 1, "{page}");
        assert!(page.contains("commit 0123") && page.contains("io.airlift"), "{page}");
    }

    #[test]
    fn what_a_server_cannot_suffer_from_is_shown_with_the_reason() {
        let cannot = Seen::CannotSuffer("nobody waits there".into());
        let odd = Row { place: Some("galera".into()), ..row("mariadb-10.11", &Ok(cannot)) };
        assert!(text(&odd).contains("not made") && text(&odd).contains("because nobody waits there"));
        let page = markdown(&[odd], "a machine", None);
        assert!(
            page.contains("| 0 run; `doctor` no (1)") && page.contains("1. nobody waits there"),
            "{page}"
        );
    }

    #[test]
    fn a_wrong_answer_is_shown_with_what_was_printed() {
        let wrong = row("mysql-5.7", &Err("wrong: the holder\nlocks: Some(0)".into()));
        let text = text(&wrong);
        assert!(
            text.contains(&format!("{} wrong", CELLS.len())) && text.contains("locks: Some(0)"),
            "{text}"
        );
    }
}
