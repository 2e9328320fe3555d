//! Files of captured process lists, as samples.
//!
//! In: text, line by line. Out: one [`Sighting`] after the other. It accepts the files that people have: `SHOW FULL
//! PROCESSLIST\G` again and again, the same as a table with or without a frame, and bare statements, one a line and one
//! for each look, as a loop around `SELECT info FROM information_schema.processlist` writes them.

use std::io::{BufRead, Read as _};

use anyhow::{Context as _, bail};
use spindoctor_captures::{Form as TableForm, Tables, form, threads};
use spindoctor_model::mysql::ServerThread;

use super::tally::Sighting;

/// Characters of a statement that are kept: as many as of a live server's.
const LONGEST: usize = 1_280;
/// Bytes of a line that are kept: of a statement its beginning counts.
const LONGEST_LINE: u64 = 1 << 20;

/// What form a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Of process lists, in any form of [`TableForm`].
    Tables,
    /// A statement a line.
    Lines,
}

/// A captured file that is read.
pub struct Captured<R> {
    reader: R,
    every_s: f64,
    appliers: bool,
    looks: u64,
    form: Option<Form>,
    tables: Tables,
    /// The statement of the line before, and in how many lines it stood.
    run: (String, u64),
    done: bool,
}

impl<R: BufRead> Captured<R> {
    /// Looks that are so far apart, where the file does not say; bare statements are clients', or a replica's appliers'.
    pub fn new(reader: R, every_s: f64, appliers: bool) -> Self {
        Self {
            reader,
            every_s,
            appliers,
            looks: 0,
            form: None,
            tables: Tables::default(),
            run: (String::new(), 0),
            done: false,
        }
    }

    /// The next look; None at the end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn next(&mut self) -> anyhow::Result<Option<Sighting>> {
        while !self.done {
            let Some(line) = self.line()? else {
                self.done = true;
                break;
            };
            if let Some(look) = self.take(&line)? {
                return Ok(Some(look));
            }
        }
        Ok(self.finish_look())
    }

    fn line(&mut self) -> anyhow::Result<Option<String>> {
        let failed = "could not read the file";
        let mut bytes = Vec::new();
        let read =
            self.reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut bytes).context(failed)? as u64;
        if read == LONGEST_LINE && !bytes.ends_with(b"\n") {
            self.reader.skip_until(b'\n').context(failed)?;
        }
        Ok((read > 0).then(|| {
            let text = String::from_utf8_lossy(&bytes);
            text.trim_end_matches(['\n', '\r']).to_owned()
        }))
    }

    /// Takes a line; the look that it ends, where it ends one.
    fn take(&mut self, line: &str) -> anyhow::Result<Option<Sighting>> {
        // `TS 1520256297.002113337 2018-03-05 13:24:57` stands before each look of pt-stalk.
        if is_timestamp(line) {
            return Ok(self.finish_look());
        }
        let form = match self.form {
            Some(form) => form,
            None if line.trim().is_empty() => return Ok(None),
            None => *self.form.insert(form_of(line)?),
        };
        Ok(match form {
            Form::Tables => self.tables.take(line).map(|rows| self.seen(threads(&rows))),
            Form::Lines => self.statement(line),
        })
    }

    /// Equal statements in a row are one that runs on.
    fn statement(&mut self, line: &str) -> Option<Sighting> {
        let text = line.trim();
        if text.is_empty() || text.eq_ignore_ascii_case("info") {
            return None;
        }
        let (before, times) = &mut self.run;
        if before.as_str() == text {
            *times += 1;
        } else {
            (*before, *times) = (text.to_owned(), 1);
        }
        let seconds = *times as f64 * self.every_s;
        let threads = (text != "NULL").then(|| ServerThread {
            connection_id: Some(1),
            is_connection: !self.appliers,
            user: if self.appliers { "system user" } else { "" }.to_owned(),
            command: "Query".to_owned(),
            time_s: seconds,
            statement: Some(shortened(&text.replace("\\n", " ").replace("\\t", " "))),
            ..ServerThread::default()
        });
        Some(self.seen(threads.into_iter().collect()))
    }

    /// The look that its rows make; None where there are none.
    fn finish_look(&mut self) -> Option<Sighting> {
        self.tables.finish().map(|rows| self.seen(threads(&rows)))
    }

    fn seen(&mut self, threads: Vec<ServerThread>) -> Sighting {
        let at_s = self.looks as f64 * self.every_s;
        self.looks += 1;
        Sighting { at_s, threads, ..Sighting::default() }
    }
}

/// What the first line says of the form.
///
/// # Errors
/// It is a table that is not understood: its lines are no statements.
fn form_of(line: &str) -> anyhow::Result<Form> {
    let names_statements = |columns: &[String]| columns.iter().any(|column| column == "info");
    match form(line) {
        Some((TableForm::Vertical, _)) => Ok(Form::Tables),
        // A border names no columns: those that follow do.
        Some((TableForm::Framed, columns)) if columns.is_empty() || names_statements(&columns) => {
            Ok(Form::Tables)
        }
        Some((TableForm::Parted('\t'), columns)) if names_statements(&columns) => Ok(Form::Tables),
        Some((TableForm::Parted(_) | TableForm::Columns, columns)) if names_statements(&columns) => bail!(
            "it is a table whose cells are not parted by tabs or |; `mysql -e 'SHOW FULL PROCESSLIST'` writes one that is read"
        ),
        _ if line.trim_start().starts_with('|') => bail!(
            "its first line is a row of a table without the line of its columns (| Id | User | Host | ...): add it"
        ),
        _ => Ok(Form::Lines),
    }
}

fn is_timestamp(line: &str) -> bool {
    line.strip_prefix("TS ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => text[..at].to_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_was_pasted_without_its_borders_is_a_table() {
        let seen = looks(
            "| Id     | User         | Host             | db  | Command | Time | State                | Info        | Progress |\n\
             | 109936 | clustercheck | localhost        |     | Query   | 191  | Filling schema table | SHOW STATUS LIKE 'a|b' | 0.000 |\n\
             | 109943 | app          | 192.0.2.35:19409 | app | Query   | 174  | query end            | INSERT INTO t_download | 0.000 |\n",
        );
        assert_eq!(seen.len(), 1);
        let threads = &seen[0].threads;
        assert_eq!(threads[0].statement.as_deref(), Some("SHOW STATUS LIKE 'a|b'"));
        assert_eq!((threads[1].user.as_str(), threads[1].time_s), ("app", 174.0));
        assert_eq!(threads[1].state, "query end");
    }

    #[test]
    fn a_table_that_is_not_understood_is_refused() {
        for text in [
            "| 109936 | clustercheck | localhost | | Query | 191 | x | SHOW STATUS | 0.000 |\n",
            "Id,User,Host,db,Command,Time,State,Info\n1,a,b,c,Query,1,x,SELECT 1\n",
            "\"ID\";\"USER\";\"HOST\";\"DB\";\"COMMAND\";\"TIME\";\"STATE\";\"INFO\"\n",
            "Id  User  Host  db  Command  Time  State  Info\n1  a  b  c  Query  1  x  SELECT 1\n",
        ] {
            let refused = Captured::new(text.as_bytes(), 0.1, false).next();
            assert!(refused.is_err(), "{text}");
        }
    }

    fn looks(text: &str) -> Vec<Sighting> {
        let mut captured = Captured::new(text.as_bytes(), 0.1, false);
        let mut looks = Vec::new();
        while let Some(seen) = captured.next().unwrap() {
            looks.push(seen);
        }
        looks
    }

    fn texts(seen: &Sighting) -> Vec<&str> {
        seen.threads.iter().map(|thread| thread.statement.as_deref().unwrap_or("-")).collect()
    }

    #[test]
    fn bare_statements_are_a_look_each_and_equal_ones_in_a_row_are_one_that_runs_on() {
        let looks = looks("UPDATE t SET a = 1\nUPDATE t SET a = 1\nNULL\nDELETE FROM t\\nWHERE a = 2\n");
        assert_eq!(looks.len(), 4);
        let times: Vec<Option<f64>> =
            looks.iter().map(|seen| seen.threads.first().map(|t| t.time_s)).collect();
        assert_eq!(times, [Some(0.1), Some(0.2), None, Some(0.1)]);
        assert_eq!(texts(&looks[3]), ["DELETE FROM t WHERE a = 2"]);
        assert_eq!(looks[3].at_s.to_string(), "0.30000000000000004");
    }

    #[test]
    fn vertical_lists_begin_again_with_their_first_row() {
        let one = "*************************** 1. row ***************************\n     Id: 7\n   User: app\n\
                   Host: web1:4711\n     db: shop\nCommand: Query\n   Time: 3\n  State: Sending data\n   Info: SELECT a\n\
                   FROM t\nWHERE x: 1\n*************************** 2. row ***************************\n     Id: 8\n\
                   Command: Sleep\n   Info: NULL\n";
        let looks = looks(&format!("TS 1520256297.002113337 2018-03-05 13:24:57\n{one}{one}"));
        assert_eq!(looks.len(), 2);
        let thread = &looks[0].threads[0];
        assert_eq!((thread.connection_id, thread.host.as_str(), thread.time_s), (Some(7), "web1", 3.0));
        assert_eq!(texts(&looks[1]), ["SELECT a\nFROM t\nWHERE x: 1", "-"]);
    }

    #[test]
    fn tables_with_and_without_a_frame_are_read() {
        let tabbed = "Id\tUser\tHost\tdb\tCommand\tTime\tState\tInfo\n5\tapp\tlocalhost\tNULL\tQuery\t0\t\tSELECT 1\t2\n";
        let read = looks(&tabbed.repeat(3));
        assert_eq!(read.len(), 3);
        assert_eq!(texts(&read[2]), ["SELECT 1\t2"]);
        let framed = "+----+------+---------+------+----------+\n| Id | User | Command | Info | Progress |\n\
                      +----+------+---------+------+----------+\n|  5 | app  | Query   | DO 1 |    0.000 |\n\
                      +----+------+---------+------+----------+\n";
        let read = looks(&framed.repeat(2));
        assert_eq!(read.len(), 2);
        assert_eq!(texts(&read[1]), ["DO 1"]);
    }

    /// What people hand in: the client's list, taken twice, as it prints it in batch mode and with `\\G`.
    #[test]
    fn the_lists_of_real_servers_are_read() {
        let captures = spindoctor_corpus::captures("full-process-list").unwrap();
        assert!(captures.len() >= 10, "only {} servers", captures.len());
        for (server, document) in captures {
            let tables: Vec<_> =
                document.all("SHOW FULL PROCESSLIST").map(spindoctor_corpus::Part::table).collect();
            assert_eq!(tables.len(), 2, "{server}");
            let vertical: String = tables.iter().map(spindoctor_corpus::Table::to_vertical).collect();
            let batch: String = tables.iter().map(spindoctor_corpus::Table::to_text).collect();
            for text in [vertical, batch] {
                let read = looks(&text);
                assert_eq!(read.len(), 2, "{server}");
                assert_eq!(read[0].threads.len(), tables[0].rows.len(), "{server}");
                let of_shop = read[0].threads.iter().filter(|thread| thread.user == "shop").count();
                assert_eq!(of_shop, 40, "{server}");
            }
        }
        for (server, document) in spindoctor_corpus::captures("table-lock-pile-up").unwrap() {
            let read = looks(&document.part("SHOW FULL PROCESSLIST").unwrap().table().to_vertical());
            let waiting =
                read[0].threads.iter().filter(|thread| thread.state == "Waiting for table level lock");
            assert!(waiting.count() >= 3, "{server}");
        }
    }

    /// Lists of other projects.
    mod shared_fixtures {
        use crate::workload::captured::tests::*;

        #[test]
        fn the_lists_of_percona_toolkit_are_read() {
            let Some(folder) = spindoctor_corpus::shared("fixtures/processlist") else { return };
            let read = |file: &str| {
                let bytes = std::fs::read(folder.join(file)).unwrap();
                looks(&String::from_utf8_lossy(&bytes))
            };
            assert_eq!(read("pt-processlist-001.txt")[0].threads.len(), 167);
            let stalk = read("pt-stalk-2018_03_05_13_24_55-processlist");
            assert!(stalk.len() > 1, "{} looks", stalk.len());
            assert!(read("pt-recset002.txt")[0].threads.iter().all(|thread| thread.state == "Locked"));
        }
    }

    #[test]
    fn no_text_makes_it_panic() {
        for text in [
            "",
            "\n\n",
            "***",
            "*** x. row ***\nInfo",
            "+-+\n|",
            "Id\tInfo\n\t",
            "\u{0}\u{1f42c}",
            "TS 1\nTS 2\n",
        ] {
            looks(text);
        }
    }
}
