//! Files that a server holds open and whose names are gone, by `lsof`: their space is in use until they are closed.
//!
//! ```text
//! COMMAND    PID  USER   FD   TYPE DEVICE    SIZE/OFF   NODE NAME
//! mysqld    4711 mysql   40u   REG  253,1 42949672960 568400 /tmp/#sql29c2c_0 (deleted)
//! ```

use spindoctor_model::number;

use crate::amounts::amount;
use crate::system::{MOST_ROWS, MOST_WORDS, SystemText};

/// Smaller files are what every server has: they are not said, bytes. By judgement.
const LEAST_BYTES: f64 = 1_073_741_824.0;

/// Says how much space they have.
pub(crate) fn read(text: &str, found: &mut SystemText) {
    let (mut files, mut all_bytes, mut largest) = (0_u64, 0.0, (0.0, ""));
    // A page may have made one line of all.
    let rows = text.lines().flat_map(|line| line.split_inclusive(MARK)).take(MOST_ROWS);
    for (name, bytes) in rows.filter_map(deleted) {
        files += 1;
        all_bytes += bytes;
        if bytes > largest.0 {
            largest = (bytes, name);
        }
    }
    if all_bytes >= LEAST_BYTES {
        let sentence = format!(
            "The server holds {} open whose names are deleted, {} together, the largest {}: df counts them, du does not, and their space is \
             free when the statements end that use them, or with the server",
            number::counted(files, "file", "files"),
            number::bytes(all_bytes),
            largest.1
        );
        found.add("lsof", None, sentence);
    }
}

/// What stands behind the name.
const MARK: &str = "(deleted)";

/// True for a row of such a file.
pub(crate) fn is_row(line: &str) -> bool {
    line.split_inclusive(MARK).any(|row| deleted(row).is_some())
}

/// The name and the size of such a file.
fn deleted(row: &str) -> Option<(&str, f64)> {
    let row = row.trim_end().strip_suffix(MARK)?.trim_end();
    let words: Vec<&str> = row.split_whitespace().take(MOST_WORDS).collect();
    let is_server = |word: &&str| ["mysqld", "mariadbd"].iter().any(|server| word.starts_with(server));
    // A command may stand before the first row.
    let begin = words.iter().rposition(is_server)?;
    let kind = begin + words[begin..].iter().position(|word| *word == "REG")?;
    let bytes = amount(words.get(kind + 2)?)?;
    Some((*words.last()?, bytes))
}

#[cfg(test)]
mod tests {
    use crate::system::read;

    #[test]
    fn deleted_files_that_a_server_holds_open_are_said_with_their_space() {
        let row = |bytes: &str, name: &str| {
            format!("mysqld    4711 mysql   40u   REG              253,1 {bytes} 568400 {name}\n")
        };
        let head = "COMMAND    PID  USER   FD   TYPE             DEVICE  SIZE/OFF   NODE NAME\n";
        let text = format!(
            "{head}{}{}{}",
            row("42949672960", "/tmp/#sql1a_0 (deleted)"),
            row("21474836480", "/tmp/MYfd=41 (deleted)"),
            row("91474836480", "/var/lib/mysql/shop/orders.ibd")
        );
        assert_eq!(
            read(&text).says,
            [
                "The server holds 2 files open whose names are deleted, 60 GiB together, the largest /tmp/#sql1a_0: df counts them, du does \
                 not, and their space is free when the statements end that use them, or with the server"
            ]
        );
        let in_one_line = format!("# lsof -p 4711 {}", text.replace(head, "").replace('\n', " "));
        assert_eq!(read(&in_one_line).says, read(&text).says);
        let parts = crate::recognise("x", &in_one_line);
        assert_eq!(parts[0].says, read(&text).says, "{parts:?}");
        let small = format!("{head}{}", row("4096", "/tmp/ibAbCd (deleted)"));
        assert_eq!(read(&small).says, Vec::<String>::new());
        assert_eq!(read(&text.replace("mysqld ", "java   ")).says, Vec::<String>::new());
    }
}
