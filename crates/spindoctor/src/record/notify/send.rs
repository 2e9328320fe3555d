//! The ways by which a message goes out.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process_group, setpriority_process};
use spindoctor_page::safe::safe;

use super::journal::Journal;
use super::message::Message;
use super::template::Template;
use crate::common::session::note;

/// How long a command may run: a page is sent in seconds. Then it and what it started are killed.
const COMMAND_WITHIN: Duration = Duration::from_secs(30);
/// How often is looked whether it has ended.
const LOOKS_EVERY: Duration = Duration::from_millis(20);
/// How long a request may take.
const HOOK_WITHIN: Duration = Duration::from_secs(10);
/// How often it is tried, and after how long again: once a minute the next message is due at most.
const HOOK_TRIES: [Duration; 3] = [Duration::ZERO, Duration::from_secs(2), Duration::from_secs(10)];
/// Of a file with an address so much is read.
const LONGEST_URL: usize = 4_096;

/// All ways that are wanted.
#[derive(Debug, Default)]
pub struct Ways {
    pub program: Option<Program>,
    pub hook: Option<Hook>,
    pub journal: Option<Journal>,
}

impl Ways {
    /// True where nothing is wanted.
    pub fn are_none(&self) -> bool {
        self.program.is_none() && self.hook.is_none() && self.journal.is_none()
    }

    /// Sends a message by each.
    pub fn send(&self, message: &Message) {
        if let Some(journal) = &self.journal {
            journal.write(message);
        }
        if let Some(program) = &self.program
            && let Err(why) = program.run(message, COMMAND_WITHIN)
        {
            note(&format!("--on-event: {why:#}"));
        }
        if let Some(hook) = &self.hook
            && let Err(why) = hook.send(message)
        {
            note(&format!("--webhook: {why:#}"));
        }
    }
}

/// `--on-event 'page-me --team db'`: words as a shell takes them apart, which no shell sees.
///
/// # Errors
/// It names no program, or a quote is not closed.
pub fn program(text: &str) -> Result<Program, String> {
    match shlex::split(text) {
        Some(words) if words.first().is_some_and(|program| !program.is_empty()) => Ok(Program { words }),
        Some(_) => Err("it names no program".to_owned()),
        None => Err("a quote is not closed".to_owned()),
    }
}

/// A program that gets the message on its standard input.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its name and its arguments; at least one word.
    words: Vec<String>,
}

impl Program {
    fn run(&self, message: &Message, within: Duration) -> anyhow::Result<()> {
        let Some((name, arguments)) = self.words.split_first() else { return Ok(()) };
        let mut child = Command::new(name)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("could not run {}", safe(name)))?;
        // The recorder goes ahead of others; what it starts does not.
        if let Ok(id) = i32::try_from(child.id()) {
            let _ = setpriority_process(Pid::from_raw(id), 0);
        }
        if let Some(mut input) = child.stdin.take() {
            // A message fits into the pipe; a program that does not read it may well have what it wants.
            let _ = input.write_all(format!("{}\n", message.json()).as_bytes());
        }
        let until = Instant::now() + within;
        loop {
            match child.try_wait().context("could not wait for it")? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("{} ended with {status}", safe(name)),
                None if Instant::now() >= until => {
                    kill(&mut child);
                    bail!("{} had not ended after {} s and was killed", safe(name), within.as_secs());
                }
                None => std::thread::sleep(LOOKS_EVERY),
            }
        }
    }
}

/// Kills a child with the group of its own that it was started in.
fn kill(child: &mut Child) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let _ = child.wait();
}

/// `--webhook https://...`, or `@FILE`, a file with the address: what it has in it is a secret often enough.
///
/// # Errors
/// It is no such address, and no name of a file.
pub fn hook_url(text: &str) -> Result<String, String> {
    let is_url = |text: &str| {
        ["https://", "http://"]
            .iter()
            .filter_map(|scheme| text.strip_prefix(scheme))
            .any(|place| !place.is_empty() && !place.starts_with('/'))
    };
    match text.strip_prefix('@') {
        Some(file) if !file.is_empty() => Ok(text.to_owned()),
        None if is_url(text) => Ok(text.to_owned()),
        _ => Err("write https://chat.example/hooks/... or @FILE for a file with the address".to_owned()),
    }
}

/// Where a message is posted to.
#[derive(Debug)]
pub struct Hook {
    agent: ureq::Agent,
    url: String,
    template: Option<Template>,
}

impl Hook {
    /// To this address, or the one in `@FILE`, with a body of the message itself or of a template.
    ///
    /// # Errors
    /// The file cannot be read, or has no address.
    pub fn new(url: &str, template: Option<Template>) -> anyhow::Result<Self> {
        let url = match url.strip_prefix('@') {
            None => url.to_owned(),
            Some(file) => {
                let text =
                    fs::read_to_string(file).with_context(|| format!("could not read {}", safe(file)))?;
                let line = text.lines().next().unwrap_or_default().trim();
                match hook_url(line) {
                    Ok(url) if !url.starts_with('@') && url.len() <= LONGEST_URL => url,
                    _ => bail!("{} has no address of a web hook in its first line", safe(file)),
                }
            }
        };
        let agent = ureq::Agent::config_builder().timeout_global(Some(HOOK_WITHIN)).build().into();
        Ok(Self { agent, url, template })
    }

    fn send(&self, message: &Message) -> anyhow::Result<()> {
        let body = self.template.as_ref().map_or_else(|| message.json(), |template| template.fill(message));
        let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&body).is_ok();
        let kind = if is_json { "application/json" } else { "text/plain; charset=utf-8" };
        let mut failed = None;
        for wait in HOOK_TRIES {
            std::thread::sleep(wait);
            match self.agent.post(&self.url).header("Content-Type", kind).send(&body) {
                Ok(_) => return Ok(()),
                // What the other side refuses it refuses again.
                Err(ureq::Error::StatusCode(code)) if (400..500).contains(&code) && code != 429 => {
                    bail!("{} answered with status {code}", self.host());
                }
                Err(why) => failed = Some(why),
            }
        }
        // The error may name the address, whose path is a secret.
        match failed {
            Some(ureq::Error::StatusCode(code)) => bail!("{} answered with status {code}", self.host()),
            Some(ureq::Error::Timeout(_)) => bail!("{} did not answer in time", self.host()),
            _ => bail!("{} could not be reached", self.host()),
        }
    }

    /// Where it goes, without what may be a secret in it.
    fn host(&self) -> String {
        let behind = self.url.split_once("://").map_or(self.url.as_str(), |(_, behind)| behind);
        let place = behind.split(['/', '?', '#']).next().unwrap_or_default();
        safe(place.rsplit('@').next().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::net::TcpListener;

    use super::super::message::examples::message;
    use super::*;

    fn run(words: &[&str], within: Duration) -> anyhow::Result<()> {
        Program { words: words.iter().map(|word| (*word).to_owned()).collect() }.run(&message(), within)
    }

    #[test]
    fn a_command_gets_the_message_on_its_standard_input_and_no_shell_sees_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("got");
        run(&["tee", file.to_str().unwrap()], COMMAND_WITHIN).unwrap();
        let got = fs::read_to_string(&file).unwrap();
        assert_eq!(got, format!("{}\n", message().json()));
        let program = program("page-me --team 'data base' '$(reboot)'").unwrap();
        assert_eq!(program.words, ["page-me", "--team", "data base", "$(reboot)"]);
        for wrong in ["", "'open", "''"] {
            assert!(super::program(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_command_that_fails_hangs_or_does_not_exist_is_named() {
        let failed = |words: &[&str], within| format!("{:#}", run(words, within).unwrap_err());
        assert!(failed(&["false"], COMMAND_WITHIN).contains("exit status: 1"));
        assert!(
            failed(&["/nonexistent/page-me"], COMMAND_WITHIN).contains("could not run /nonexistent/page-me")
        );
        let begun = Instant::now();
        // What it started is killed with it: the shell waits for its child.
        let hung = failed(&["sh", "-c", "sleep 60; true"], Duration::from_millis(200));
        assert!(hung.contains("was killed") && begun.elapsed() < Duration::from_secs(20), "{hung}");
    }

    /// Answers one request after the other; what each had in its body.
    fn hook(statuses: &'static [&'static str]) -> (String, std::thread::JoinHandle<Vec<String>>) {
        let listens = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listens.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            statuses
                .iter()
                .map(|status| {
                    let (mut stream, _) = listens.accept().unwrap();
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    let mut length = 0;
                    for line in reader.by_ref().lines() {
                        let line = line.unwrap().to_lowercase();
                        if let Some(value) = line.strip_prefix("content-length:") {
                            length = value.trim().parse().unwrap();
                        }
                        if line.is_empty() {
                            break;
                        }
                    }
                    let mut body = vec![0; length];
                    reader.read_exact(&mut body).unwrap();
                    let answer =
                        format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                    stream.write_all(answer.as_bytes()).unwrap();
                    String::from_utf8(body).unwrap()
                })
                .collect()
        });
        (format!("http://{address}/hooks/s3cret"), thread)
    }

    #[test]
    fn a_hook_gets_the_message_and_is_tried_again_where_it_is_busy() {
        let (url, got) = hook(&["503 Busy", "200 OK"]);
        Hook::new(&url, None).unwrap().send(&message()).unwrap();
        assert_eq!(got.join().unwrap(), [message().json(), message().json()]);
        let template = r#"{"text": "{hostname}: {cause}"}"#.parse().unwrap();
        let (url, got) = hook(&["204 No Content"]);
        Hook::new(&url, Some(template)).unwrap().send(&message()).unwrap();
        assert_eq!(got.join().unwrap(), [r#"{"text": "db17: row-lock-pileup"}"#]);
    }

    #[test]
    fn a_hook_that_refuses_is_named_without_its_secret() {
        let (url, got) = hook(&["403 Forbidden"]);
        let why = format!("{:#}", Hook::new(&url, None).unwrap().send(&message()).unwrap_err());
        assert!(why.contains("127.0.0.1") && why.contains("403") && !why.contains("s3cret"), "{why}");
        got.join().unwrap();
    }

    #[test]
    fn the_address_may_stand_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hook");
        fs::write(&file, "https://chat.example/hooks/s3cret\n").unwrap();
        let at = format!("@{}", file.display());
        assert_eq!(Hook::new(&at, None).unwrap().host(), "chat.example");
        for wrong in ["", "@other", "ftp://x", "https://"] {
            fs::write(&file, wrong).unwrap();
            assert!(Hook::new(&at, None).is_err(), "{wrong}");
        }
        assert!(Hook::new("@/nonexistent", None).is_err());
        assert!(hook_url("https://x/y").is_ok() && hook_url("@a").is_ok());
        for wrong in ["", "@", "x", "http:///y"] {
            assert!(hook_url(wrong).is_err(), "{wrong}");
        }
    }
}
