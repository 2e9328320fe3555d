//! Which documents belong to one moment of one server: two servers are never one window, nor are two times that are far apart,
//! nor the time before and after a restart.

use std::collections::BTreeMap;

use jiff::civil::DateTime;
use spindoctor_model::mysql::NamedValues;

use crate::clock;
use crate::part::{Kind, Part, Said};

/// Readings further apart than this are of two moments: pt-stalk collects for 30 s, and who pastes a status twice waits for
/// seconds or minutes. By judgement.
const FAR_APART_S: f64 = 900.0;

/// Documents of one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collection {
    /// The beginning of the files' names that pt-stalk gave them (`2018_03_05_13_24_55`), the server, the time. Empty where there
    /// is none.
    pub name: String,
    /// Places in the list of documents.
    pub parts: Vec<usize>,
}

/// The collections of a list of documents: of each server in order of name. What has no collection's name belongs to all where it
/// says how the server is set, and to one of its own otherwise.
pub fn collections(parts: &[Part]) -> Vec<Collection> {
    let (names, servers) = servers(parts);
    if names.len() < 2 {
        return of_one_server(parts, &(0..parts.len()).collect::<Vec<_>>());
    }
    let mut all = Vec::new();
    for (server, name) in names.iter().map(|name| Some(name.as_str())).chain([None]).enumerate() {
        let is_of = |at: &usize| servers[*at] == name.map(|_| server);
        let places: Vec<usize> = (0..parts.len()).filter(is_of).collect();
        if !holds(parts, &places) {
            continue;
        }
        all.extend(of_one_server(parts, &places).into_iter().map(|one| Collection {
            name: [name.unwrap_or("of an unknown server"), one.name.as_str()].join(" ").trim_end().to_owned(),
            ..one
        }));
    }
    all
}

fn holds(parts: &[Part], places: &[usize]) -> bool {
    places.iter().any(|at| !parts[*at].moments.is_empty())
}

fn of_one_server(parts: &[Part], places: &[usize]) -> Vec<Collection> {
    let mut named: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut others = Vec::new();
    for at in places {
        match prefix(&parts[*at].name) {
            Some(prefix) => named.entry(prefix).or_default().push(*at),
            None => others.push(*at),
        }
    }
    named.retain(|_, places| holds(parts, places));
    if named.is_empty() {
        return moments(parts, places);
    }
    let (settings, rest): (Vec<usize>, Vec<usize>) =
        others.into_iter().partition(|at| is_setting(&parts[*at]));
    let mut all: Vec<Collection> = named
        .into_iter()
        .map(|(name, places)| Collection {
            name,
            parts: places.into_iter().chain(settings.iter().copied()).collect(),
        })
        .collect();
    if holds(parts, &rest) {
        all.extend(moments(parts, &rest));
    }
    all
}

fn is_setting(part: &Part) -> bool {
    matches!(part.kind, Kind::GlobalVariables | Kind::OptionFile)
}

/// `2018_03_05_13_24_55` of `db17/2018_03_05_13_24_55-processlist`, with its folder.
fn prefix(name: &str) -> Option<String> {
    let (folder, file) = folder_and_file(name);
    let (prefix, _) = file.split_once('-')?;
    let parts: Vec<&str> = prefix.split('_').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_prefix = parts.len() == 6 && parts[0].len() == 4 && parts.iter().all(is_number);
    is_prefix.then(|| if folder.is_empty() { prefix.to_owned() } else { format!("{folder}/{prefix}") })
}

fn folder_and_file(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}

/// Who a server is, as its variables say.
#[derive(Debug, Default, PartialEq)]
struct Identity<'p> {
    uuid: Option<&'p str>,
    hostname: Option<&'p str>,
    port: Option<&'p str>,
}

impl<'p> Identity<'p> {
    fn from_part(part: &'p Part) -> Option<Self> {
        let said = part.moments.iter().flat_map(|moment| &moment.said);
        let variables =
            said.filter_map(|said| if let Said::Variables(values) = said { Some(values) } else { None });
        let one = |values: &'p NamedValues| Self {
            uuid: values.text("server_uuid"),
            hostname: values.text("hostname"),
            port: values.text("port"),
        };
        variables.map(one).find(|one| one.uuid.is_some() || one.hostname.is_some())
    }

    fn is(&self, other: &Self) -> bool {
        fn differ(one: Option<&str>, other: Option<&str>) -> bool {
            one.zip(other).is_some_and(|(one, other)| one != other)
        }
        match (self.uuid, other.uuid) {
            (Some(one), Some(other)) => one == other,
            _ => !differ(self.hostname, other.hostname) && !differ(self.port, other.port),
        }
    }

    fn name(&self) -> String {
        let name = self.hostname.or(self.uuid).unwrap_or_default();
        self.port.map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"))
    }
}

/// The servers that variables name, and of each document which of them it is of, where that is known: the one that its file names
/// above it, the only one of its folder, the one whose name is in the file's.
fn servers(parts: &[Part]) -> (Vec<String>, Vec<Option<usize>>) {
    let mut known: Vec<Identity<'_>> = Vec::new();
    let said: Vec<Option<usize>> = parts
        .iter()
        .map(|part| {
            let identity = Identity::from_part(part)?;
            let at = known.iter().position(|one| one.is(&identity));
            if at.is_none() {
                known.push(identity);
            }
            Some(at.unwrap_or(known.len() - 1))
        })
        .collect();
    let only = |is_near: &dyn Fn(&Part) -> bool| -> Option<usize> {
        let mut near =
            parts.iter().zip(&said).filter(|(part, _)| is_near(part)).filter_map(|(_, said)| *said);
        let first = near.next()?;
        near.all(|one| one == first).then_some(first)
    };
    let place = |(at, part): (usize, &Part)| {
        let is_here = |other: &usize| parts[*other].name == part.name && said[*other].is_some();
        let in_file = (0..=at).rev().find(is_here).or_else(|| (at..parts.len()).find(is_here));
        let folder = folder_and_file(&part.name).0;
        let in_name = || {
            let mut named = known.iter().enumerate().filter(|(_, one)| {
                one.hostname.is_some_and(|hostname| !hostname.is_empty() && part.name.contains(hostname))
            });
            named.next().filter(|_| named.next().is_none()).map(|(at, _)| at)
        };
        in_file
            .and_then(|other| said[other])
            .or_else(|| {
                only(&|other| prefix(&other.name).is_some() && prefix(&other.name) == prefix(&part.name))
            })
            .or_else(in_name)
            .or_else(|| only(&|other| folder_and_file(&other.name).0 == folder))
    };
    let servers = parts.iter().enumerate().map(place).collect();
    (known.iter().map(Identity::name).collect(), servers)
}

/// Documents of one server at several times: those that are far apart are collections of their own, and so are counters of before
/// and after a restart. What has no time belongs to the document in whose file it is; how the server is set, and its log, to all.
fn moments(parts: &[Part], places: &[usize]) -> Vec<Collection> {
    let groups = by_time(parts, places).unwrap_or_else(|| by_run(parts, places));
    if groups.len() < 2 {
        return vec![Collection { name: String::new(), parts: places.to_vec() }];
    }
    let group_of = |at: usize| groups.iter().position(|(_, group)| group.contains(&at));
    let mut all: Vec<Collection> =
        groups.iter().map(|(name, _)| Collection { name: name.clone(), parts: Vec::new() }).collect();
    let mut rest = Vec::new();
    for &at in places {
        let part = &parts[at];
        let beside = || (0..parts.len()).filter(|other| parts[*other].name == part.name).find_map(group_of);
        match group_of(at) {
            Some(group) => all[group].parts.push(at),
            None if is_setting(part) || part.kind == Kind::ErrorLog => {
                all.iter_mut().for_each(|one| one.parts.push(at));
            }
            None => match beside() {
                Some(group) => all[group].parts.push(at),
                None => rest.push(at),
            },
        }
    }
    if holds(parts, &rest) {
        let settings = places.iter().copied().filter(|at| is_setting(&parts[*at]));
        all.push(Collection { name: String::new(), parts: rest.into_iter().chain(settings).collect() });
    }
    all
}

/// Groups of documents with names.
type Groups = Vec<(String, Vec<usize>)>;

/// By the times that the documents name; None where all are of one.
fn by_time(parts: &[Part], places: &[usize]) -> Option<Groups> {
    let time = |part: &Part| -> Option<DateTime> {
        let is_listed = part.kind != Kind::ErrorLog;
        part.moments.iter().find_map(|moment| moment.time).or(part.time).filter(|_| is_listed)
    };
    let mut timed: Vec<(DateTime, usize)> =
        places.iter().filter_map(|at| Some((time(&parts[*at])?, *at))).collect();
    timed.sort();
    let mut groups: Groups = Vec::new();
    let mut before: Option<DateTime> = None;
    for (time, at) in timed {
        let is_far = before.is_none_or(|before| clock::seconds(before, time) > FAR_APART_S);
        before = Some(time);
        match groups.last_mut().filter(|_| !is_far) {
            Some((_, group)) => group.push(at),
            None => groups.push((time.strftime("%Y-%m-%d %H:%M:%S").to_string(), vec![at])),
        }
    }
    (groups.len() > 1).then_some(groups)
}

/// By the counters, which begin again where a server does. Two readings in the wrong order are not far apart, and the one of the
/// longer uptime has no smaller counter.
fn by_run(parts: &[Part], places: &[usize]) -> Groups {
    let counters = |at: &usize| -> Option<(f64, f64, usize)> {
        let said = parts[*at].moments.iter().flat_map(|moment| &moment.said);
        let mut status =
            said.filter_map(|said| if let Said::Status(values) = said { Some(values) } else { None });
        let of = |values: &NamedValues| {
            let statements = values.number("questions").or_else(|| values.number("com_select"));
            Some((values.number("uptime")?, statements?, *at))
        };
        status.next_back().and_then(of)
    };
    let mut groups: Groups = Vec::new();
    let mut before = None;
    for (uptime_s, statements, at) in places.iter().filter_map(counters) {
        let is_of_run = before.is_some_and(|(before_s, before_statements): (f64, f64)| {
            uptime_s + FAR_APART_S >= before_s && (uptime_s >= before_s) == (statements >= before_statements)
        });
        before = Some((uptime_s, statements));
        match groups.last_mut().filter(|_| is_of_run) {
            Some((_, group)) => group.push(at),
            None => groups.push((format!("at an uptime of {uptime_s} s"), vec![at])),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recognise;

    fn named(files: &[(&str, &str)]) -> Vec<(String, Vec<String>)> {
        let parts: Vec<Part> = files.iter().flat_map(|(name, text)| recognise(name, text)).collect();
        let of = |one: Collection| {
            let mut files: Vec<String> = one.parts.iter().map(|at| parts[*at].name.clone()).collect();
            files.dedup();
            (one.name, files)
        };
        collections(&parts).into_iter().map(of).collect()
    }

    fn variables(uuid: u8, hostname: &str) -> String {
        format!(
            "Variable_name\tValue\ndatadir\t/d\nhostname\t{hostname}\nport\t3306\nserver_uuid\t{uuid}\nversion\t8.0.36\n"
        )
    }

    fn counters(uptime_s: u64, questions: u64) -> String {
        format!("Variable_name\tValue\nQuestions\t{questions}\nThreads_running\t3\nUptime\t{uptime_s}\n")
    }

    fn status(time: &str) -> String {
        format!(
            "=====\n{time} 0x7f INNODB MONITOR OUTPUT\n=====\n------------\nTRANSACTIONS\n------------\nTrx id counter 5\n\
             History list length 7\nEND OF INNODB MONITOR OUTPUT\n=====\n"
        )
    }

    #[test]
    fn two_servers_are_never_one() {
        let of = |all: Vec<(String, Vec<String>)>| {
            all.into_iter().map(|(name, files)| format!("{name}: {}", files.join(" "))).collect::<Vec<_>>()
        };
        let (one, other) = (variables(1, "db-a"), variables(2, "db-b"));
        let (before, after) = (counters(10, 50), counters(20, 90));
        let found = named(&[
            ("a.txt", &format!("{one}{before}")),
            ("b.txt", &format!("{other}{after}")),
            ("db-b-status", &after),
            ("whose", &before),
        ]);
        assert_eq!(
            of(found),
            ["db-a:3306: a.txt", "db-b:3306: b.txt db-b-status", "of an unknown server: whose"]
        );
        let found = named(&[("x/v", &one), ("x/s", &before), ("y/v", &other), ("y/s", &after)]);
        assert_eq!(of(found), ["db-a:3306: x/v x/s", "db-b:3306: y/v y/s"]);
        // The same server twice, and a copy of a machine that kept its name.
        assert_eq!(named(&[("a", &one), ("b", &one), ("c", &before)]).len(), 1);
        assert_eq!(named(&[("a", &one), ("b", &variables(2, "db-a"))]).len(), 2);
    }

    #[test]
    fn times_that_are_far_apart_are_not_one_moment() {
        let list = "Id\tUser\tCommand\tTime\tState\tInfo\n7\tapp\tSleep\t3\t\tNULL\n";
        let (night, later, morning) =
            (status("2025-02-03 02:17:09"), status("2025-02-03 02:17:39"), status("2025-02-03 09:00:00"));
        assert_eq!(named(&[("1", &night), ("2", &later), ("list", list)]).len(), 1);
        let found = named(&[
            ("1", &night),
            ("2", &later),
            ("3", &format!("{morning}{list}")),
            ("v", &variables(1, "a")),
        ]);
        let files = |files: &[&str]| files.iter().map(|&file| file.to_owned()).collect::<Vec<_>>();
        assert_eq!(
            found,
            [
                ("2025-02-03 02:17:09".to_owned(), files(&["1", "2", "v"])),
                ("2025-02-03 09:00:00".to_owned(), files(&["3", "v"])),
            ]
        );
    }

    #[test]
    fn counters_of_before_a_restart_are_not_those_of_after_it() {
        let (before, after) = (counters(90_000, 7_000_000), counters(30, 400));
        let names: Vec<String> =
            named(&[("1", &before), ("2", &after)]).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["at an uptime of 90000 s", "at an uptime of 30 s"]);
        let crashed = [("1", &*counters(300, 40_000)), ("2", &*counters(400, 300))];
        assert_eq!(named(&crashed).len(), 2);
        let (first, second) = (counters(30, 400), counters(40, 900));
        assert_eq!(named(&[("after", &second), ("before", &first)]).len(), 1);
    }
}
