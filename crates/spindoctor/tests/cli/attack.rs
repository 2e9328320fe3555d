//! Servers that attack: every command against fake ones that want the password, or more memory than there is.
//!
//! What is looked at is what arrived at the fake server (the password must not, in any form that it could read), what the
//! program printed, its exit code, and how much memory it took. The certificate in `tests/tls` was made by
//! `openssl req -x509 -newkey rsa:2048 -nodes -days 36500`: anybody can make one.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use rsa::pkcs8::{EncodePublicKey as _, LineEnding};
use rsa::rand_core::OsRng;
use rsa::{Oaep, RsaPrivateKey};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha1::Sha1;

use crate::program::spindoctor;

const PASSWORD: &str = "hunter2hunter2";
/// No command takes a tenth of it by itself.
const MOST_MEMORY_KIB: u64 = 400 << 10;
/// No command waits longer for a server that has nothing to say.
const PATIENCE: Duration = Duration::from_secs(60);
const NONCE: &[u8; 20] = b"abcdefghijklmnopqrst";
const OK: &[u8] = b"\0\0\0\x02\0\0\0";
const EOF: &[u8] = b"\xfe\0\0\x02\0";

static KEY: LazyLock<RsaPrivateKey> = LazyLock::new(|| RsaPrivateKey::new(&mut OsRng, 1024).expect("a key"));

/// What a fake server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attack {
    /// It wants the password itself, and offers a key of its own to any client.
    FullLogin {
        tls: bool,
    },
    /// It wants another way of login, in which the password is sent as it is.
    Switch {
        to: &'static str,
        tls: bool,
    },
    /// The login goes on for ever, as fast as it can or a byte at a time.
    EndlessLogin,
    SlowGreeting,
    /// A refusal with a text of 16 MiB that steers the terminal.
    LongRefusal,
    /// Every client gets this answer to the statement of this number, and normal answers to those before.
    Answer(Evil, u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Evil {
    ColumnCount,
    EndlessColumns,
    HugeColumnName,
    EndlessRows,
    EndlessNulls,
    EndlessPacket,
    EndlessResults,
    LongError,
    LocalInfile,
}

const EVIL: [Evil; 9] = [
    Evil::ColumnCount,
    Evil::EndlessColumns,
    Evil::HugeColumnName,
    Evil::EndlessRows,
    Evil::EndlessNulls,
    Evil::EndlessPacket,
    Evil::EndlessResults,
    Evil::LongError,
    Evil::LocalInfile,
];

/// A fake server on a thread of its own for each connection; they end with this process.
struct Fake {
    host: IpAddr,
    port: u16,
    /// All that arrived, after TLS and RSA were taken off.
    came: Arc<Mutex<Vec<u8>>>,
}

impl Fake {
    fn start(host: IpAddr, attack: Attack) -> Self {
        let listener = TcpListener::bind((host, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let came = Arc::default();
        let all = Arc::clone(&came);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let came = Arc::clone(&all);
                // Whatever the client does, the others are served.
                std::thread::spawn(move || drop(serve(stream, attack, &came)));
            }
        });
        Self { host, port, came }
    }

    fn got_the_password(&self) -> bool {
        let came = self.came.lock().expect("nobody panicked");
        came.windows(PASSWORD.len()).any(|window| window == PASSWORD.as_bytes())
    }

    fn was_asked(&self) -> bool {
        !self.came.lock().expect("nobody panicked").is_empty()
    }
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// One packet to the client.
fn send(stream: &mut dyn Stream, sequence: u8, payload: &[u8]) -> io::Result<()> {
    let mut framed = (payload.len() as u32).to_le_bytes()[..3].to_vec();
    framed.push(sequence);
    framed.extend_from_slice(payload);
    stream.write_all(&framed)
}

/// One packet of the client's, which is kept.
fn receive(stream: &mut dyn Stream, came: &Mutex<Vec<u8>>) -> io::Result<(u8, Vec<u8>)> {
    let mut header = [0; 4];
    stream.read_exact(&mut header)?;
    let length = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload)?;
    let mut came = came.lock().expect("nobody panicked");
    came.extend_from_slice(&payload);
    if let Ok(mixed) = KEY.decrypt(Oaep::new::<Sha1>(), &payload) {
        came.extend(mixed.iter().zip(NONCE.iter().cycle()).map(|(a, b)| a ^ b));
    }
    Ok((header[3], payload))
}

/// `0a VERSION 0 ID[4] NONCE[8] 0 CAP[2] CHARSET[1] STATUS[2] CAP[2] LEN[1] 0[10] NONCE[12] 0 PLUGIN 0`
fn greeting(tls: bool) -> Vec<u8> {
    let capabilities: u32 = if tls { 0xdfff_ffff } else { 0xdfff_f7ff };
    let capabilities = capabilities.to_le_bytes();
    let mut packet = b"\x0a9.7.4\0\x0c\0\0\0".to_vec();
    packet.extend_from_slice(&NONCE[..8]);
    packet.push(0);
    packet.extend_from_slice(&capabilities[..2]);
    packet.extend_from_slice(b"\xff\x02\0");
    packet.extend_from_slice(&capabilities[2..]);
    packet.push(21);
    packet.extend_from_slice(&[0; 10]);
    packet.extend_from_slice(&NONCE[8..]);
    packet.extend_from_slice(b"\0caching_sha2_password\0");
    packet
}

fn tls_of(stream: TcpStream) -> io::Result<Box<dyn Stream>> {
    let file = |name: &str| format!("{}/tests/tls/{name}", env!("CARGO_MANIFEST_DIR"));
    let chain = CertificateDer::pem_file_iter(file("cert.pem")).expect("it is there").flatten().collect();
    let key = PrivateKeyDer::from_pem_file(file("key.pem")).expect("it is there");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("they belong together");
    let session = rustls::ServerConnection::new(Arc::new(config)).map_err(io::Error::other)?;
    Ok(Box::new(rustls::StreamOwned::new(session, stream)))
}

fn serve(stream: TcpStream, attack: Attack, came: &Mutex<Vec<u8>>) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let mut plain = stream;
    let tls = matches!(attack, Attack::FullLogin { tls: true } | Attack::Switch { tls: true, .. });
    let greeting = greeting(tls);
    match attack {
        Attack::SlowGreeting => {
            for byte in [&[greeting.len() as u8, 0, 0, 0][..], &greeting].concat() {
                plain.write_all(&[byte])?;
                std::thread::sleep(Duration::from_millis(200));
            }
            return Ok(());
        }
        Attack::LongRefusal => {
            let long = [b"\xff\x15\x04#28000\x1b[2JAccess denied ".as_slice(), &vec![b'x'; (16 << 20) - 64]]
                .concat();
            return send(&mut plain, 0, &long);
        }
        _ => send(&mut plain, 0, &greeting)?,
    }
    let (mut sequence, first) = receive(&mut plain, came)?;
    let mut stream: Box<dyn Stream> = Box::new(plain.try_clone()?);
    // A request for TLS is the head of a response and no more.
    if tls && first.len() == 32 {
        stream = tls_of(plain)?;
        sequence = receive(stream.as_mut(), came)?.0;
    }
    let stream = stream.as_mut();
    match attack {
        Attack::FullLogin { .. } => {
            send(stream, sequence + 1, b"\x01\x04")?;
            let (sequence, asked) = receive(stream, came)?;
            if asked == [2] {
                let pem = KEY.to_public_key().to_public_key_pem(LineEnding::LF).expect("PEM");
                send(stream, sequence + 1, &[b"\x01", pem.as_bytes()].concat())?;
                receive(stream, came)?;
            }
            Ok(())
        }
        Attack::Switch { to, .. } => {
            send(stream, sequence + 1, &[b"\xfe", to.as_bytes(), b"\0", NONCE, b"\0"].concat())?;
            loop {
                let (sequence, asked) = receive(stream, came)?;
                if asked == [1] {
                    let pem = KEY.to_public_key().to_public_key_pem(LineEnding::LF).expect("PEM");
                    send(stream, sequence + 1, &[b"\x01", pem.as_bytes()].concat())?;
                }
            }
        }
        Attack::EndlessLogin => loop {
            sequence = sequence.wrapping_add(1);
            send(stream, sequence, b"\x01\x03")?;
        },
        Attack::Answer(evil, number) => {
            send(stream, sequence + 1, OK)?;
            let mut asked = 0;
            loop {
                let (_, statement) = receive(stream, came)?;
                asked += 1;
                if asked < number {
                    decent(stream, &statement)?;
                } else {
                    attacked(stream, evil)?;
                }
            }
        }
        Attack::SlowGreeting | Attack::LongRefusal => Ok(()),
    }
}

fn column(name: &[u8]) -> Vec<u8> {
    let mut packet = b"\x03def\0\0\0".to_vec();
    match name.len() {
        0..=250 => packet.push(name.len() as u8),
        long => {
            packet.push(0xfd);
            packet.extend_from_slice(&(long as u32).to_le_bytes()[..3]);
        }
    }
    packet.extend_from_slice(name);
    packet.extend_from_slice(b"\0\x0c\x21\0\0\0\0\0\xfd\0\0\0\0\0");
    packet
}

/// What a server says first is that it is one; everything else it does not have.
fn decent(stream: &mut dyn Stream, statement: &[u8]) -> io::Result<()> {
    let text = String::from_utf8_lossy(statement);
    if text.contains("@@version") {
        send(stream, 1, b"\x03")?;
        for (at, name) in ["@@version", "@@version_comment", "@@hostname"].iter().enumerate() {
            send(stream, at as u8 + 2, &column(name.as_bytes()))?;
        }
        send(stream, 5, EOF)?;
        send(stream, 6, b"\x059.7.4\x00\x04fake")?;
        return send(stream, 7, EOF);
    }
    match text.contains("SET ") || text.contains("SELECT 1") || statement == [14] {
        true => send(stream, 1, OK),
        false => send(stream, 1, b"\xff\x7a\x04#42S02no such table"),
    }
}

fn attacked(stream: &mut dyn Stream, evil: Evil) -> io::Result<()> {
    let mut sequence = 0_u8;
    let mut next = |stream: &mut dyn Stream, payload: &[u8]| {
        sequence = sequence.wrapping_add(1);
        send(stream, sequence, payload)
    };
    match evil {
        Evil::ColumnCount => next(stream, b"\xfe\0\0\0\0\0\x01\0\0"),
        Evil::EndlessColumns => {
            next(stream, b"\xfc\0\x10")?;
            let wide = column(&[b'c'; 50_000]);
            loop {
                next(stream, &wide)?;
            }
        }
        Evil::HugeColumnName => {
            next(stream, b"\x01")?;
            next(stream, &column(&vec![b'c'; (16 << 20) - 100]))
        }
        Evil::EndlessRows | Evil::EndlessNulls | Evil::EndlessPacket => {
            let columns: u16 = if evil == Evil::EndlessNulls { 4096 } else { 1 };
            next(stream, &[b"\xfc", &columns.to_le_bytes()[..]].concat())?;
            for _ in 0..columns {
                next(stream, &column(b"c"))?;
            }
            next(stream, EOF)?;
            if evil == Evil::EndlessPacket {
                // A row of which each frame says that there is another.
                let mut frame = vec![b'x'; 0xff_ffff];
                frame[..4].copy_from_slice(b"\xfd\xff\xff\xff");
                loop {
                    next(stream, &frame)?;
                }
            }
            let row = match evil {
                Evil::EndlessNulls => vec![0xfb; 4096],
                _ => [b"\xfc\xe8\x03".as_slice(), &[b'x'; 1000]].concat(),
            };
            loop {
                next(stream, &row)?;
            }
        }
        Evil::EndlessResults => loop {
            next(stream, b"\0\0\0\x0a\0\0\0")?;
        },
        Evil::LongError => {
            let head = b"\xff\x51\x04#HY000\x1b[2Jno ".as_slice();
            next(stream, &[head, &vec![b'x'; (16 << 20) - 64]].concat())
        }
        Evil::LocalInfile => {
            next(stream, b"\xfb/etc/passwd")?;
            Ok(())
        }
    }
}

/// What came of a command.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
    most_kib: u64,
}

fn run(arguments: &[String], folder: &std::path::Path) -> Ran {
    let program = spindoctor("");
    let mut child = Command::new(program.get_program())
        .args(arguments)
        .env_clear()
        .env("HOME", "/nonexistent")
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let read = |pipe: Option<Box<dyn Read + Send>>| {
        let mut pipe = pipe.expect("it is piped");
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = pipe.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        })
    };
    let out = read(child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>));
    let err = read(child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>));
    let (begun, mut most_kib) = (Instant::now(), 0);
    let code = loop {
        // `VmHWM:	   12345 kB`
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let peak = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().split(' ').next()?.parse().ok());
        most_kib = most_kib.max(peak.unwrap_or(0));
        if let Some(status) = child.try_wait().expect("it is our child") {
            break status.code();
        }
        if begun.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    Ran { code, out: out.join().expect("it reads"), err: err.join().expect("it reads"), most_kib }
}

/// Every command that logs in, against this server.
fn commands(fake: &Fake) -> Vec<Vec<String>> {
    let at = format!(
        "-h {} -P {} -u app -p{PASSWORD} --no-defaults --connect-timeout 2s --query-timeout 1s",
        fake.host, fake.port
    );
    let login = format!("-u app -p{PASSWORD} --no-defaults --connect-timeout 2s --query-timeout 1s");
    let server = format!("{}:{}", fake.host, fake.port);
    let list = "--servers-from LIST";
    [
        format!("doctor {at} --remote --duration 1s"),
        format!("record {at} --remote --duration 5s -o x.spindoctor"),
        format!("top {at} --remote --once --duration 1s"),
        format!("locks {at} --remote"),
        format!("workload {at} --remote --duration 1s"),
        format!("stacks {at} --duration 1s"),
        format!("cache {at}"),
        format!("connections {at} --duration 1s"),
        format!("indexes {at} --duration 1s"),
        format!("tune {at} --plan --duration 1s"),
        format!("tune {at} --apply --only innodb_io_capacity=300 --max-time 5s"),
        format!("fleet query {login} {list} STATUS"),
        format!("fleet doctor {login} {list}"),
        format!("fleet top {login} {list} --once"),
        format!("fleet servers {login} --discover {server}"),
    ]
    .iter()
    .map(|line| {
        let word = |word: &str| match word {
            "LIST" => format!("echo {server}"),
            "STATUS" => "SHOW GLOBAL STATUS".to_owned(),
            other => other.to_owned(),
        };
        line.split(' ').map(word).collect()
    })
    .collect()
}

/// So many commands are attacked at once: most of them wait, for what does not come.
const AT_ONCE: usize = 3;

/// What holds for every command and every attack.
fn withstands(attack: Attack, host: IpAddr, commands: impl Fn(&Fake) -> Vec<Vec<String>> + Sync) {
    let (next, asked) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let fake = Fake::start(host, attack);
                    let Some(command) = commands(&fake).into_iter().nth(number) else { break };
                    one_withstands(attack, &fake, &command);
                    asked.fetch_add(usize::from(fake.was_asked()), Ordering::Relaxed);
                }
            });
        }
    });
    assert!(
        asked.into_inner() > 0 || matches!(attack, Attack::SlowGreeting | Attack::LongRefusal),
        "{attack:?} asked nobody"
    );
}

fn one_withstands(attack: Attack, fake: &Fake, command: &[String]) {
    let folder = tempfile::tempdir().expect("a folder");
    let ran = run(command, folder.path());
    let what = format!("{attack:?} of {command:?}: {ran:?}");
    assert!(!fake.got_the_password(), "the password arrived: {what}");
    assert!(!ran.out.contains(PASSWORD) && !ran.err.contains(PASSWORD), "the password is shown: {what}");
    assert!(matches!(ran.code, Some(0..=3)), "no signal ended it, nor our patience: {what}");
    assert!(!ran.err.contains("panicked"), "{what}");
    assert!(ran.most_kib < MOST_MEMORY_KIB, "{} MiB: {what}", ran.most_kib >> 10);
    let steers = |c: char| c != '\n' && c.is_control();
    assert!(!ran.err.chars().any(steers) && ran.err.len() < 20_000, "{what}");
    if !matches!(attack, Attack::Answer(..)) && fake.was_asked() {
        // A recorder goes on recording the host.
        assert!(ran.code == Some(2) || command[0] == "record", "{what}");
        assert!(ran.err.contains(&fake.port.to_string()), "the server is named: {what}");
    }
}

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// An address of this host that is not loopback: to a client, any other host's.
fn another_host() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: the kernel says from where it would be.
    socket.connect("198.51.100.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[test]
fn who_wants_the_password_itself_without_tls_does_not_get_it() {
    withstands(Attack::FullLogin { tls: false }, LOOPBACK, commands);
    for to in ["sha256_password", "mysql_clear_password", "dialog", "mysql_old_password"] {
        withstands(Attack::Switch { to, tls: false }, LOOPBACK, |fake| {
            commands(fake)
                .into_iter()
                .filter(|command| ["doctor", "fleet"].contains(&command[0].as_str()))
                .collect()
        });
    }
}

#[test]
fn who_wants_the_password_over_tls_that_proves_nothing_does_not_get_it() {
    let Some(host) = another_host() else {
        eprintln!("not run: this host has no address but loopback");
        return;
    };
    withstands(Attack::FullLogin { tls: true }, host, commands);
    for mode in ["REQUIRED", "VERIFY_CA"] {
        withstands(Attack::FullLogin { tls: true }, host, |fake| {
            let with = |mut command: Vec<String>| {
                command.insert(1 + usize::from(command[0] == "fleet"), format!("--ssl-mode={mode}"));
                command
            };
            commands(fake)
                .into_iter()
                .filter(|command| ["doctor", "fleet"].contains(&command[0].as_str()))
                .map(with)
                .collect()
        });
    }
    for to in ["sha256_password", "mysql_clear_password", "dialog"] {
        withstands(Attack::Switch { to, tls: true }, host, |fake| {
            commands(fake).into_iter().take(1).collect()
        });
    }
}

#[test]
fn what_the_user_names_is_done_and_no_more() {
    let host = another_host().unwrap_or(LOOPBACK);
    let folder = tempfile::tempdir().expect("a folder");
    let run_with = |attack, flags: &[&str]| {
        let fake = Fake::start(host, attack);
        let mut command = commands(&fake).remove(0);
        command.extend(flags.iter().map(|&flag| flag.to_owned()));
        let ran = run(&command, folder.path());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        fake.got_the_password()
    };
    let (open, tls) = (Attack::FullLogin { tls: false }, Attack::FullLogin { tls: true });
    let ours = RsaPrivateKey::new(&mut OsRng, 1024).expect("a key");
    let file = folder.path().join("public_key.pem");
    let pem = ours.to_public_key().to_public_key_pem(LineEnding::LF).expect("PEM");
    std::fs::write(&file, pem).expect("it is written");
    let pinned = format!("--server-public-key-path={}", file.display());
    assert!(run_with(open, &["--get-server-public-key"]), "the harness sees a password that arrives");
    assert!(!run_with(open, &[&pinned]), "encrypted with the user's key");
    assert!(!run_with(open, &[&pinned, "--get-server-public-key"]), "and with no other");
    assert!(!run_with(open, &["--trust-unverified-server"]), "never without TLS");
    assert!(run_with(tls, &["--trust-unverified-server"]));
    if host != LOOPBACK {
        assert!(!run_with(tls, &["--ssl-mode=REQUIRED", "--get-server-public-key"]), "a key is for no TLS");
        assert!(!run_with(tls, &[&pinned]), "a key that is pinned is for no TLS");
    }
}

#[test]
fn a_login_that_does_not_end_ends() {
    for attack in [Attack::EndlessLogin, Attack::SlowGreeting, Attack::LongRefusal] {
        withstands(attack, LOOPBACK, commands);
    }
}

#[test]
fn no_answer_takes_more_memory_than_there_is() {
    for evil in EVIL {
        withstands(Attack::Answer(evil, 1), LOOPBACK, commands);
    }
    // What the sources ask, once the session is set up.
    for evil in [Evil::ColumnCount, Evil::EndlessRows, Evil::EndlessNulls, Evil::EndlessPacket] {
        withstands(Attack::Answer(evil, 3), LOOPBACK, |fake| {
            let asks = |command: &Vec<String>| {
                ["doctor", "record", "top", "locks", "fleet"].contains(&command[0].as_str())
            };
            commands(fake).into_iter().filter(asks).collect()
        });
    }
}

#[test]
fn an_answer_that_cannot_be_taken_is_one_line_that_names_the_server() {
    for evil in EVIL {
        let fake = Fake::start(LOOPBACK, Attack::Answer(evil, 1));
        let folder = tempfile::tempdir().expect("a folder");
        let ran = run(&commands(&fake).remove(0), folder.path());
        assert_eq!(ran.code, Some(2), "{evil:?}: {ran:?}");
        assert_eq!(ran.err.lines().count(), 1, "{evil:?}: {ran:?}");
        assert!(ran.err.contains(&format!("127.0.0.1:{}", fake.port)), "{evil:?}: {ran:?}");
    }
}
