//! Attacks are made by another account, for real: they need root, who can become one.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use super::*;

/// `nobody`: an account that owns nothing.
const OTHER: u32 = 65534;

/// True where this process can become another account; else says why the test is skipped.
fn can_attack() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: only root can act as another account");
    }
    is_root
}

/// Runs a line of shell as the other account.
fn as_other(line: &str) {
    let status = Command::new("sh").args(["-c", line]).uid(OTHER).gid(OTHER).status().unwrap();
    assert!(status.success(), "{line}");
}

/// A folder in which everybody can make files, as `/tmp`.
fn public() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    folder
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn refused<T: std::fmt::Debug>(outcome: io::Result<T>) -> String {
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
    let text = error.to_string();
    assert!(
        !text.contains('\n') && error.get_ref().and_then(|inner| inner.downcast_ref::<Refusal>()).is_some()
    );
    text
}

#[test]
fn what_is_made_is_for_its_owner_alone_and_what_was_ours_is_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    write(&file, "a long text").unwrap();
    assert_eq!(mode(&file), 0o600);
    write(&file, "short").unwrap();
    append(&file).unwrap().write_all(b" and more").unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "short and more");
    drop(read_write(&file).unwrap());
    assert_eq!(fs::read_to_string(&file).unwrap(), "short and more");
    let link = folder.path().join("latest");
    symlink("page.html", &link).unwrap();
    write(&link, "through a link of ours").unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "through a link of ours");
    let dangling = folder.path().join("dangling");
    symlink("next.html", &dangling).unwrap();
    write(&dangling, "x").unwrap();
    assert_eq!(mode(&folder.path().join("next.html")), 0o600);
    make_folder(&folder.path().join("a/b")).unwrap();
    assert_eq!(mode(&folder.path().join("a")), 0o700);
    assert!(write(folder.path(), "x").is_err() && write(&folder.path().join("none/x"), "x").is_err());
}

#[test]
fn the_kernels_own_names_of_open_files_are_written_to() {
    write(Path::new("/dev/null"), "x").unwrap();
    expect_writable(Path::new("/dev/null")).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file.as_file()));
    write(Path::new(&own), "x").unwrap();
    assert_eq!(fs::read_to_string(file.path()).unwrap(), "x");
    expect_writable(Path::new("/dev/stderr")).unwrap();
}

#[test]
fn a_link_of_another_account_is_not_followed_at_the_end_or_on_the_way() {
    if !can_attack() {
        return;
    }
    let (folder, victim) = (public(), tempfile::tempdir().unwrap());
    let target = victim.path().join("passwd");
    fs::write(&target, "as it was").unwrap();
    let at = |name: &str| folder.path().join(name);
    as_other(&format!(
        "cd {} && ln -s {} link && ln -s {} way && mkdir dir && chmod 777 dir",
        folder.path().display(),
        target.display(),
        victim.path().display()
    ));
    for path in [at("link"), at("way/passwd"), at("way/new")] {
        for outcome in [
            create(&path).map(drop),
            append(&path).map(drop),
            read_write(&path).map(drop),
            expect_writable(&path),
        ] {
            let text = refused(outcome);
            assert!(text.contains("symbolic link") && text.contains("uid 65534"), "{text}");
        }
    }
    refused(make_folder(&at("way/made")));
    refused(Folder::private(&at("way")));
    assert_eq!(fs::read_to_string(&target).unwrap(), "as it was");
    assert_eq!(fs::read_dir(victim.path()).unwrap().count(), 1);
    // A link of root's that lies where another account can move it.
    symlink(&target, at("dir/roots")).unwrap();
    refused(create(&at("dir/roots")));
}

#[test]
fn a_file_of_another_account_or_with_two_names_is_not_written_to() {
    if !can_attack() {
        return;
    }
    let folder = public();
    let at = |name: &str| folder.path().join(name);
    as_other(&format!("cd {} && echo x >theirs && chmod 666 theirs && mkfifo pipe", folder.path().display()));
    assert!(refused(create(&at("theirs"))).contains("belongs to uid 65534"));
    assert_eq!(fs::read_to_string(at("theirs")).unwrap(), "x\n", "it is not emptied either");
    // Nobody reads from it: opening it must not wait for somebody.
    assert!(create(&at("pipe")).is_err() && append(&at("pipe")).is_err());
    fs::write(at("ours"), "secret").unwrap();
    fs::hard_link(at("ours"), at("second")).unwrap();
    assert!(refused(create(&at("second"))).contains("2 names"));
    assert_eq!(fs::read_to_string(at("ours")).unwrap(), "secret");
}

#[test]
fn a_private_folder_is_made_and_everything_in_it_is_ours() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("not/yet");
    assert!(Folder::existing(&path).unwrap().is_none());
    let private = Folder::private(&path).unwrap();
    assert_eq!((mode(&path), mode(&folder.path().join("not"))), (0o700, 0o700));
    assert_eq!(private.read("a", 10).unwrap(), None);
    private.write("a", b"one").unwrap();
    // Left over by a process that was killed.
    fs::write(path.join("a.unfinished"), "tw").unwrap();
    private.write("a", b"two").unwrap();
    assert_eq!(private.read("a", 3).unwrap().as_deref(), Some(&b"two"[..]));
    assert!(refused(private.read("a", 2)).contains("more than 2 bytes"));
    private.append("log").unwrap().write_all(b"line\n").unwrap();
    private.rename("log", "log.1").unwrap();
    drop(private.read_write("lock").unwrap());
    assert_eq!(mode(&path.join("lock")), 0o600);
    assert_eq!(private.names().unwrap(), ["a", "lock", "log.1"]);
    private.replace("a", b"new").unwrap();
    assert_eq!(private.read("a", 3).unwrap().as_deref(), Some(&b"new"[..]));
    private.remove("a").unwrap();
    private.remove("a").unwrap();
    assert_eq!(private.read("a", 3).unwrap(), None);
    let gone = private.replace("a", b"back").unwrap_err();
    assert_eq!((gone.kind(), private.read("a", 4).unwrap()), (io::ErrorKind::NotFound, None));
    assert_eq!(private.names().unwrap(), ["lock", "log.1"], "nothing is left beside it");
    for name in ["", ".", "..", "../x", "a/b", "/etc/passwd"] {
        assert!(private.read(name, 1).is_err() && private.write(name, b"").is_err(), "{name}");
    }
    // Readable for others, as another program may have made it.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Folder::private(&path).unwrap();
    assert_eq!(mode(&path), 0o700);
}

#[test]
fn a_private_folder_that_others_can_change_is_refused_and_so_is_one_below_such() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    for bits in [0o770, 0o707, 0o1777] {
        drop(Folder::private(&path).unwrap());
        fs::set_permissions(&path, fs::Permissions::from_mode(bits)).unwrap();
        assert!(refused(Folder::private(&path)).contains("can be changed by other accounts"), "{bits:o}");
        assert!(refused(Folder::existing(&path)).contains("chmod go-w"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(refused(Folder::private(&path)).contains(&*folder.path().to_string_lossy()));
    assert!(refused(Folder::private(&folder.path().join("new"))).contains("can be changed"));
    assert!(!folder.path().join("new").exists());
    if !can_attack() {
        return;
    }
    let public = public();
    as_other(&format!("mkdir -m 700 {}/state", public.path().display()));
    assert!(refused(Folder::private(&public.path().join("state"))).contains("belongs to uid 65534"));
    assert!(refused(Folder::private(&public.path().join("state/below"))).contains("belongs to uid 65534"));
}

#[test]
fn in_a_private_folder_nothing_but_regular_files_of_ours_is_read_or_added_to() {
    let folder = tempfile::tempdir().unwrap();
    let private = Folder::private(folder.path()).unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("victim"), "as it was").unwrap();
    symlink(at("victim"), at("link")).unwrap();
    assert!(refused(private.read("link", 100)).contains("symbolic link"));
    assert!(refused(private.append("link")).contains("symbolic link"));
    fs::hard_link(at("victim"), at("second")).unwrap();
    assert!(refused(private.read("second", 100)).contains("2 names"));
    assert!(refused(private.append("second")).contains("2 names"));
    assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
    assert!(refused(private.read("pipe", 100)).contains("is a FIFO"));
    assert!(private.append("pipe").is_err() && private.read_write("pipe").is_err());
    fs::create_dir(at("dir")).unwrap();
    assert!(refused(private.read("dir", 100)).contains("is a folder"));
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    assert!(refused(private.read("socket", 100)).contains("is a socket"));
    fs::write(at("open"), "x").unwrap();
    fs::set_permissions(at("open"), fs::Permissions::from_mode(0o602)).unwrap();
    assert!(refused(private.read("open", 100)).contains("can be changed by other accounts"));
    // What is written takes the place of a link, and does not follow it.
    private.write("link", b"new").unwrap();
    assert_eq!(fs::read_to_string(at("victim")).unwrap(), "as it was");
    if !can_attack() {
        return;
    }
    std::os::unix::fs::chown(at("open"), Some(OTHER), None).unwrap();
    assert!(refused(private.read("open", 100)).contains("belongs to uid 65534"));
    assert!(refused(private.append("open")).contains("belongs to uid 65534"));
}

#[test]
fn what_decides_is_read_only_where_nobody_else_can_change_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let permit = |name: &str, bits| fs::set_permissions(at(name), fs::Permissions::from_mode(bits)).unwrap();
    fs::write(at("file"), "text").unwrap();
    // Whatever the umask is.
    permit("file", 0o644);
    assert_eq!(read_trusted(&at("file"), 4).unwrap(), b"text");
    assert!(refused(read_trusted(&at("file"), 3)).contains("more than 3 bytes"));
    assert_eq!(read_trusted(&at("none"), 4).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(read_trusted(&at("no/folder"), 4).unwrap_err().kind(), io::ErrorKind::NotFound);
    symlink("file", at("link")).unwrap();
    fs::create_dir(at("dir")).unwrap();
    permit("dir", 0o755);
    symlink("../file", at("dir/link")).unwrap();
    assert_eq!(read_trusted(&at("dir/link"), 4).unwrap(), b"text", "links of ours are followed");
    assert!(refused(read_trusted(&at("dir"), 4)).contains("is a folder"));
    assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
    assert!(refused(read_trusted(&at("pipe"), 4)).contains("is a FIFO"));
    for bits in [0o620, 0o602, 0o666] {
        permit("file", bits);
        assert!(refused(read_trusted(&at("link"), 4)).contains("run chmod go-w"), "{bits:o}");
    }
    permit("file", 0o644);
    permit("dir", 0o777);
    assert!(
        refused(read_trusted(&at("dir/link"), 4)).contains("dir"),
        "somebody could exchange what is in it"
    );
    permit("dir", 0o1777);
    assert_eq!(read_trusted(&at("dir/link"), 4).unwrap(), b"text", "in a sticky one what is ours stays");
    if !can_attack() {
        return;
    }
    std::os::unix::fs::chown(at("file"), Some(OTHER), None).unwrap();
    assert!(refused(read_trusted(&at("link"), 4)).contains("belongs to uid 65534"));
    let public = public();
    as_other(&format!("cd {} && mkdir theirs && echo x >theirs/file", public.path().display()));
    std::os::unix::fs::chown(public.path().join("theirs/file"), Some(0), None).unwrap();
    assert!(
        refused(read_trusted(&public.path().join("theirs/file"), 4)).contains("theirs belongs to uid 65534")
    );
}

#[test]
fn of_a_file_that_was_named_no_more_is_read_than_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "text").unwrap();
    assert_eq!(read_named(&file, 4).unwrap(), b"text");
    assert!(read_named(&file, 3).unwrap_err().to_string().contains("more than 3 bytes"));
    assert!(
        read_named(Path::new("/dev/zero"), 1 << 20).unwrap_err().to_string().contains("more than 1048576")
    );
    let sparse = File::create(&file).unwrap();
    sparse.set_len(1 << 33).unwrap();
    assert_eq!(read_named(&file, 1 << 30).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
}

/// A pipe in a folder.
fn pipe(folder: &Path) -> PathBuf {
    let pipe = folder.join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
    pipe
}

#[test]
fn a_pipe_that_nobody_writes_into_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let why = read_named(&pipe(folder.path()), 1 << 20).unwrap_err().to_string();
    assert_eq!(why, "there is nothing to read: nobody writes into this pipe");
}

#[test]
fn a_pipe_is_read_to_its_end_however_late_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = pipe(folder.path());
    // The writer has opened it before it is read, writes when its own input ends, and that is more than a pipe holds.
    let mut reader = open_named(&pipe).unwrap();
    let mut writer = File::options().write(true).open(&pipe).unwrap();
    let text = vec![b'x'; 1 << 20];
    let written = std::thread::spawn(move || {
        writer.write_all(&text).unwrap();
    });
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    written.join().unwrap();
    assert_eq!(bytes.len(), 1 << 20);
    // As a shell's `<(true)`: nothing was written, and its writer is gone.
    let mut reader = open_named(&pipe).unwrap();
    drop(File::options().write(true).open(&pipe).unwrap());
    assert_eq!(reader.read_to_end(&mut Vec::new()).unwrap(), 0);
}

#[test]
fn what_is_packed_is_unpacked_up_to_a_bound_that_grows_with_it() {
    assert_eq!(read_unpacked(&b"text"[..], 2, 1 << 30).unwrap(), b"text");
    for (packed_bytes, largest_bytes, most) in
        [(1_000, 1 << 30, "1048576"), (10_000, 1 << 30, "2000000"), (1 << 20, 1 << 20, "1048576")]
    {
        let error = read_unpacked(io::repeat(b' '), packed_bytes, largest_bytes).unwrap_err();
        assert!(error.kind() == io::ErrorKind::FileTooLarge && error.to_string().contains(most), "{error}");
    }
}
