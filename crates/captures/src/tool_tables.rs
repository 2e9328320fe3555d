//! Lists of tools of the system in a table, as Markdown and chats have them: as the tools print them, with blanks between the columns.
//!
//! ```text
//! | Device | r/s | w/s   | w_await | %util |
//! |--------|-----|-------|---------|-------|
//! | sda    | 12.0 | 812.0 | 81.2   | **99.8** |
//! ```

use std::borrow::Cow;

use crate::containers;
use crate::rows::header_of;
use crate::stacks::{Writer, writer};
use crate::stretch::is_of_system;

/// Fewer columns may be a list of anything.
const FEW: usize = 3;
/// The widest list of a tool, of `iostat -x`, has 23.
const MOST: usize = 64;

/// The text with such tables as the tools print them.
pub(crate) fn as_printed(text: &str) -> Cow<'_, str> {
    let lines: Vec<&str> = text.lines().collect();
    let head = |at: usize| {
        let is_above_rule = lines.get(at + 1).is_some_and(|next| is_rule(next));
        lines.get(at).filter(|_| is_above_rule).and_then(|line| head(line))
    };
    if !(0..lines.len()).any(|at| head(at).is_some()) {
        return Cow::Borrowed(text);
    }
    let mut all = String::with_capacity(text.len());
    let mut columns: Option<Vec<&str>> = None;
    for (at, line) in lines.iter().enumerate() {
        if let Some(names) = head(at) {
            all.push_str(&printed(&names, &[]));
            columns = Some(names);
        } else if is_rule(line) && (columns.is_some() || head(at + 1).is_some()) {
            continue;
        } else if let Some((names, cells)) = columns.as_ref().zip(cells(line)) {
            all.push_str(&printed(&cells, names));
        } else {
            columns = None;
            all.push_str(line);
        }
        all.push('\n');
    }
    Cow::Owned(all)
}

/// The names of the columns of such a list.
fn head(line: &str) -> Option<Vec<&str>> {
    let names = cells(line).filter(|names| (FEW..=MOST).contains(&names.len()))?;
    let plain = names.join("  ");
    let is_list = header_of(line).is_none() && (is_of_system(&plain) || is_of_perf(&plain));
    is_list.then_some(names)
}

fn is_of_perf(head: &str) -> bool {
    writer(head) == Some(Writer::Profiler)
}

/// `|----|:--:|`, `+----+----+`
fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.starts_with(['|', '+']) && line.contains("--") && line.bytes().all(|byte| b"|+-:= ".contains(&byte))
}

/// The cells of a row, without the marks of what is bold or code.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inside = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inside.split('|').map(|cell| cell.trim().trim_matches(['*', '`']).trim()).collect())
}

/// A row as a tool prints it. Without a blank in it each cell stays in its column; one without a name is a row's name, as of `free`.
fn printed(cells: &[&str], names: &[&str]) -> String {
    let head = if names.is_empty() { cells } else { names };
    let plain = head.join("  ");
    let keeps_blanks = containers::is_head(&plain) || is_of_perf(&plain);
    let is_kernel = cells.iter().any(|cell| cell.starts_with("[kernel"));
    let cell = |(at, cell): (usize, &&str)| -> Option<String> {
        let is_last = at + 1 == cells.len();
        let is_symbol = !names.is_empty() && head.get(at) == Some(&"Symbol") && is_of_perf(&plain);
        match *cell {
            "" if at == 0 || head.first() == Some(&"") => None,
            "" => Some("-".to_owned()),
            symbol if is_symbol && !symbol.starts_with('[') => {
                Some(format!("[{}] {symbol}", if is_kernel { 'k' } else { '.' }))
            }
            cell if is_last || keeps_blanks => Some(cell.to_owned()),
            cell => Some(cell.replace(' ', "_")),
        }
    };
    cells.iter().enumerate().filter_map(cell).collect::<Vec<_>>().join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recognise;

    fn says(text: &str) -> String {
        recognise("x", text).into_iter().flat_map(|part| part.says).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn a_table_of_a_tool_in_markdown_says_what_the_tool_does() {
        for (text, wanted) in [
            (
                "This is our disk:\n\n| Device | r/s | w/s | rkB/s | wkB/s | r_await | w_await | %util |\n\
                 |--------|----:|-----|-------|-------|---------|---------|-------|\n\
                 | sda | 12.0 | 812.0 | 412.0 | 9123.0 | 11.2 | 81.2 | **99.8** |\n| sdb | 1.0 | 2.0 | 12.0 | 123.0 | 1.2 | 1.2 | 0.8 |\n",
                "The disk sda is 100 % busy: 812 writes a second take 81 ms each",
            ),
            (
                "| Filesystem | Size | Used | Avail | Use% | Mounted on |\n|---|---|---|---|---|---|\n\
                 | /dev/sdb1 | 100G | 100G | 0 | 100% | `/var/lib/mysql` |\n",
                "/var/lib/mysql is 100% full",
            ),
            (
                "| | total | used | free | shared | buff/cache | available |\n|---|---|---|---|---|---|---|\n\
                 | Mem: | 7976 | 7812 | 98 | 12 | 66 | 41 |\n| Swap: | 2047 | 1990 | 57 | | | |\n",
                "of the swap space is in use",
            ),
            (
                "| CONTAINER ID | NAME | CPU % | MEM USAGE / LIMIT | MEM % |\n|---|---|---|---|---|\n\
                 | 91c44695d1db | shop-mysql | 198.42% | 7.61GiB / 8GiB | 95.13% |\n",
                "The container shop-mysql uses 2.0 CPUs, and 7.61GiB of the 8GiB of memory",
            ),
            (
                "| Overhead | Command | Shared Object | Symbol |\n|---|---|---|---|\n| 41.20% | mysqld | mysqld | ut_delay |\n\
                 | 12.10% | mysqld | [kernel] | native_queued_spin_lock_slowpath |\n",
                "41 % mysqld in ut_delay",
            ),
        ] {
            assert!(says(text).contains(wanted), "{text}: {}", says(text));
        }
    }

    #[test]
    fn tables_of_a_client_and_others_stay_as_they_are() {
        for text in [
            "| Id | User | Host | db | Command | Time | State | Info |\n|---|---|---|---|---|---|---|---|\n| 5 | app | h | d | Query | 4 | | a |\n",
            "| Path | total | filename |\n|---|---|---|\n| a | b | c |\n",
            "| PID | %CPU | COMMAND |\n| 1 | 2 | 3 |\n",
        ] {
            assert!(matches!(as_printed(text), Cow::Borrowed(_)), "{text}");
        }
    }
}
