//! Process lists of a page in another language: phpMyAdmin translates the names of the columns, and nothing else of the list.
//!
//! ```text
//! Prozesse    ID    Benutzer    Host    Datenbank    Befehl    Zeit    Status    Fortschritt    SQL-Befehl
//! ```

/// The words of its translations (po/de.po, es.po, fr.po, it.po, nl.po, pl.po, pt.po, pt_BR.po, ru.po), in lower case, and the columns of a
/// process list that they are.
const NAMES: [(&str, &str); 53] = [
    ("benutzer", "user"),
    ("datenbank", "db"),
    ("befehl", "command"),
    ("zeit", "time"),
    ("sql-befehl", "info"),
    ("sql-abfrage", "info"),
    ("utilisateur", "user"),
    ("client", "host"),
    ("hôte", "host"),
    ("serveur", "host"),
    ("base de données", "db"),
    ("commande", "command"),
    ("temps", "time"),
    ("durée", "time"),
    ("état", "state"),
    ("statut", "state"),
    ("requête sql", "info"),
    ("usuario", "user"),
    ("servidor", "host"),
    ("base de datos", "db"),
    ("comando", "command"),
    ("orden", "command"),
    ("tiempo", "time"),
    ("estado", "state"),
    ("estado actual", "state"),
    ("consulta sql", "info"),
    ("utente", "user"),
    ("tempo", "time"),
    ("stato", "state"),
    ("query sql", "info"),
    ("usuário", "user"),
    ("utilizador", "user"),
    ("máquina", "host"),
    ("banco de dados", "db"),
    ("base de dados", "db"),
    ("comando sql", "info"),
    ("gebruiker", "user"),
    ("machine", "host"),
    ("opdracht", "command"),
    ("commando", "command"),
    ("tijd", "time"),
    ("sql-query", "info"),
    ("użytkownik", "user"),
    ("baza danych", "db"),
    ("polecenie", "command"),
    ("czas", "time"),
    ("stan", "state"),
    ("zapytanie sql", "info"),
    ("пользователь", "user"),
    ("хост", "host"),
    ("база данных", "db"),
    ("команда", "command"),
    ("время", "time"),
];

/// Words of more than one language, and those that the translations keep.
const KEPT: [(&str, &str); 13] = [
    ("id", "id"),
    ("user", "user"),
    ("host", "host"),
    ("db", "db"),
    ("database", "db"),
    ("command", "command"),
    ("time", "time"),
    ("state", "state"),
    ("status", "state"),
    ("статус", "state"),
    ("состояние", "state"),
    ("sql-запрос", "info"),
    ("info", "info"),
];

/// Columns by which such a head is known, and how many of them have words of another language: fewer may be a sentence.
const FEWEST: usize = 4;
const FEWEST_WORDS: usize = 2;

/// The columns of a head in another language; what is none of a process list is left out. None for other heads, and where half of the
/// cells are left out: words of a sentence.
pub(crate) fn names(cells: &[&str]) -> Option<Vec<String>> {
    if cells.len() < FEWEST {
        return None;
    }
    let mut words = 0;
    let mut names: Vec<String> = Vec::with_capacity(cells.len());
    for (at, cell) in cells.iter().enumerate() {
        let cell = cell.trim().trim_matches(['"', '\'', '`']);
        let found = column(cell).filter(|(name, _)| !names.iter().any(|known| known == name));
        words += usize::from(found.is_some_and(|(_, is_word)| is_word));
        names.push(found.map_or_else(|| format!("left_out_{at}"), |(name, _)| name.to_owned()));
    }
    let has = |name: &str| names.iter().any(|known| known == name);
    let known = names.iter().filter(|name| !name.starts_with("left_out_")).count();
    let is_list = words >= FEWEST_WORDS
        && known >= FEWEST
        && 2 * known > cells.len()
        && has("time")
        && (has("command") || has("info"));
    is_list.then_some(names)
}

/// The column that a word names, and whether it is one of another language.
fn column(word: &str) -> Option<(&'static str, bool)> {
    /// Bytes.
    const LONGEST: usize = 40;
    if word.is_empty() || word.len() > LONGEST {
        return None;
    }
    let word = word.to_lowercase();
    let of = |table: &'static [(&'static str, &'static str)]| table.iter().find(|(known, _)| *known == word);
    let foreign = of(&NAMES).map(|(_, name)| (*name, true));
    foreign.or_else(|| of(&KEPT).map(|(_, name)| (*name, false)))
}

#[cfg(test)]
mod tests {
    use crate::part::{Kind, Said};
    use crate::recognise;

    #[test]
    fn a_page_in_another_language_is_a_process_list() {
        for head in [
            "Prozesse \tID \tBenutzer \tHost \tDatenbank \tBefehl \tZeit \tStatus \tFortschritt \tSQL-Befehl",
            "Processus \tID \tUtilisateur \tClient \tBase de données \tCommande \tTemps \tÉtat \tProgression \tRequête SQL",
            "Procesos \tID \tUsuario \tServidor \tBase de datos \tComando \tTiempo \tEstado \tProgreso \tConsulta SQL",
            "Processi \tID \tUtente \tHost \tDatabase \tComando \tTempo \tStato \tAvanzamento \tQuery SQL",
            "Процессы \tID \tПользователь \tХост \tБаза данных \tКоманда \tВремя \tСтатус \tПрогресс \tSQL-запрос",
        ] {
            let page = format!(
                "{head}\nX \t71 \twp \tlocalhost \twp \tQuery \t95 \tWaiting for table metadata lock \t--- \tALTER TABLE a ADD b INT\n\
                 X \t72 \twp \tlocalhost \twp \tSleep \t94 \t--- \t--- \t---\n"
            );
            let tables =
                page.lines().map(|line| format!("| {} |\n", line.replace('\t', "|"))).collect::<String>();
            for text in [page, tables] {
                let parts = recognise("x", &text);
                let Some(Said::Threads(threads)) =
                    parts[0].moments.first().and_then(|moment| moment.said.first())
                else {
                    panic!("{text}: {parts:?}")
                };
                let seen: Vec<_> = threads
                    .iter()
                    .map(|thread| {
                        (
                            thread.connection_id,
                            thread.time_s,
                            thread.state.as_str(),
                            thread.statement.as_deref(),
                        )
                    })
                    .collect();
                assert_eq!(
                    seen,
                    [
                        (Some(71), 95.0, "Waiting for table metadata lock", Some("ALTER TABLE a ADD b INT")),
                        (Some(72), 94.0, "", None)
                    ],
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn a_sentence_in_another_language_is_no_list() {
        for text in [
            "Benutzer, Passwort, Zeit und Ort\n1, 2, 3, 4\n",
            "der Benutzer\tdie Zeit\tder Befehl\tder Host\n1\t2\t3\t4\n",
            "usuario,contraseña,servidor,puerto\na,b,c,1\n",
        ] {
            assert!(recognise("x", text).iter().all(|part| part.kind == Kind::Unknown), "{text}");
        }
    }
}
