//! What AppArmor and SELinux refused to a server, as the kernel's log, the audit log and setroubleshoot have it.
//!
//! ```text
//! [ 8123.4] audit: type=1400 audit(1720840568.800:300): apparmor="DENIED" operation="open" profile="/usr/sbin/mysqld" name="/data/ibdata1"
//!   pid=4711 comm="mysqld" requested_mask="rw" denied_mask="rw" fsuid=112 ouid=112
//! type=AVC msg=audit(1720840568.800:300): avc:  denied  { write } for  pid=4711 comm="mysqld" name="data" dev="dm-0" ino=394
//!   scontext=system_u:system_r:mysqld_t:s0 tcontext=unconfined_u:object_r:default_t:s0 tclass=dir permissive=0
//! setroubleshoot: SELinux is preventing /usr/libexec/mysqld from write access on the directory /data.
//! ```
//!
//! In: a line. Out: which of `MEANINGS` it has, and when it was. Of security/apparmor/audit.c, security/selinux/avc.c and setroubleshoot's
//! signature.py.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use spindoctor_model::TroubleKind;

/// What these lines mean, and the trouble that causes rest on.
const MEANINGS: [(&str, Option<TroubleKind>); COUNT] = [
    (
        "AppArmor or SELinux refused a file to the server: it cannot be read or written there, whatever its owner and its mode are",
        Some(TroubleKind::FileRefused),
    ),
    ("SELinux refused a port to the server: semanage port -a -t mysqld_port_t -p tcp PORT allows one", None),
    ("AppArmor or SELinux refused to the server what it does without in most places", None),
    ("SELinux would refuse something to the server, and lets it through: it is permissive", None),
];
const FILE: usize = 0;
const PORT: usize = 1;
const OTHER: usize = 2;
const PERMISSIVE: usize = 3;

/// How many meanings there are.
pub(crate) const COUNT: usize = 4;

/// How a line of AppArmor says that it refused something.
const DENIED: &str = "apparmor=\"DENIED\"";
/// Of SELinux, with blanks behind it and `denied` behind those.
const VECTOR: &str = "avc:";
const ALERT: &str = "SELinux is preventing ";

/// Files that a server asks for and does without: the nodes of NUMA, its own limits, systemd.
const ASIDE: [&str; 4] = ["/sys/", "/proc/", "/run/systemd/", "run/systemd/"];
/// The file systems of those, of which SELinux names the device and no path.
const SYSTEMS_ASIDE: [&str; 4] = ["sysfs", "proc", "cgroup", "cgroup2"];

/// Classes of files (security/selinux/include/classmap.h).
const FILES: [&str; 5] = ["file", "dir", "lnk_file", "sock_file", "blk_file"];

/// What each of them means, in order.
pub(crate) fn meanings() -> impl Iterator<Item = (&'static str, Option<TroubleKind>)> {
    MEANINGS.into_iter()
}

/// Which of them a line is; None for one of another program.
pub(crate) fn entry(line: &str) -> Option<usize> {
    app_armor(line).or_else(|| se_linux(line)).or_else(|| alert(line))
}

/// True for such a line.
pub(crate) fn is_denial(line: &str) -> bool {
    entry(line).is_some()
}

/// The time of such a line by its own number, seconds since 1970, in UTC.
pub(crate) fn time(line: &str) -> Option<DateTime> {
    let (_, rest) = line.split_once("audit(")?;
    let seconds = rest.split(['.', ':', ')']).next()?.parse().ok()?;
    Some(Timestamp::from_second(seconds).ok()?.to_zoned(TimeZone::UTC).datetime())
}

/// True for the path or the name of a server's program.
fn is_server(program: &str) -> bool {
    ["mysqld", "mariadbd"].iter().any(|server| program.ends_with(server))
}

/// What stands in quotes behind ` name=`.
fn quoted<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let (_, rest) = line.split_once(&format!(" {name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

/// The word behind ` name=`.
fn word<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let (_, rest) = line.split_once(&format!(" {name}="))?;
    rest.split_whitespace().next()
}

fn app_armor(line: &str) -> Option<usize> {
    /// Operations on files (security/apparmor/include/audit.h).
    const OF_FILES: [&str; 17] = [
        "open",
        "mknod",
        "mkdir",
        "rmdir",
        "unlink",
        "link",
        "symlink",
        "rename_src",
        "rename_dest",
        "truncate",
        "getattr",
        "setattr",
        "chmod",
        "chown",
        "file_perm",
        "file_lock",
        "file_mmap",
    ];
    let (_, denied) = line.split_once(DENIED)?;
    if !["profile", "comm"].iter().any(|name| quoted(denied, name).is_some_and(is_server)) {
        return None;
    }
    let is_of_files = quoted(denied, "operation").is_some_and(|operation| OF_FILES.contains(&operation));
    let needs_it = !quoted(denied, "name").is_some_and(is_aside);
    Some(if is_of_files && needs_it { FILE } else { OTHER })
}

/// True for a path that a server does without.
fn is_aside(path: &str) -> bool {
    ASIDE.iter().any(|folder| path.starts_with(folder))
}

fn se_linux(line: &str) -> Option<usize> {
    let (_, vector) = line.split_once(VECTOR)?;
    let denied = vector.trim_start().strip_prefix("denied")?;
    let is_domain = |context: &str| context.contains(":mysqld_t");
    if !quoted(denied, "comm").is_some_and(is_server) && !word(denied, "scontext").is_some_and(is_domain) {
        return None;
    }
    let mut permissions = denied.split('}').next().unwrap_or_default().split_whitespace();
    // Of a line that was cut the permission is known, and the class may not be.
    let is_file = word(denied, "tclass").is_none_or(|class| FILES.contains(&class));
    let needs_it = !quoted(denied, "dev").is_some_and(|device| SYSTEMS_ASIDE.contains(&device));
    Some(match () {
        () if word(denied, "permissive") == Some("1") => PERMISSIVE,
        () if permissions.any(|permission| matches!(permission, "name_bind" | "name_connect")) => PORT,
        () if is_file && needs_it => FILE,
        () => OTHER,
    })
}

/// `SELinux is preventing PROGRAM from write access on the directory /data.`; capabilities and processes are not `on the` something.
fn alert(line: &str) -> Option<usize> {
    let (_, rest) = line.split_once(ALERT)?;
    rest.split_whitespace().next().filter(|program| is_server(program))?;
    let mut target = rest.split_once(" on the ").map_or("", |(_, target)| target).split_whitespace();
    let (class, path) = (target.next().unwrap_or_default(), target.next().unwrap_or_default());
    Some(match () {
        () if rest.contains("name_bind access") || rest.contains("name_connect access") => PORT,
        () if (class == "directory" || FILES.contains(&class)) && !is_aside(path) => FILE,
        () => OTHER,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::Kind;
    use crate::{recognise, window};

    const APP_ARMOR: &str = "audit: type=1400 audit(1720840568.800:300): apparmor=\"DENIED\" operation=\"open\" class=\"file\" \
                             profile=\"/usr/sbin/mysqld\" name=\"/data/mysql/ibdata1\" pid=4711 comm=\"mysqld\" requested_mask=\"rw\" \
                             denied_mask=\"rw\" fsuid=112 ouid=112";
    const SE_LINUX: &str = "type=AVC msg=audit(1720840568.800:300): avc:  denied  { write } for  pid=4711 comm=\"mysqld\" name=\"data\" \
                            dev=\"dm-0\" ino=394 scontext=system_u:system_r:mysqld_t:s0 \
                            tcontext=unconfined_u:object_r:default_t:s0 tclass=dir permissive=0";

    #[test]
    fn a_refused_file_is_why_a_server_does_not_start_in_every_form() {
        for line in [
            format!("[ 8123.456789] {APP_ARMOR}"),
            format!("Mar 12 03:10:11 db1 kernel: [ 8123.456789] {APP_ARMOR}"),
            APP_ARMOR.replace("audit: type=1400 audit(1720840568.800:300)", "type=AVC msg=audit(1720840568.800:300)"),
            format!("Mar 12 03:10:11 db1 audit[4711]: AVC {}", &APP_ARMOR[APP_ARMOR.find("apparmor").unwrap()..]),
            APP_ARMOR.replace("/usr/sbin/mysqld", "mariadbd").replace("\"open\"", "\"mknod\""),
            SE_LINUX.to_owned(),
            format!("Mar 12 03:10:11 db1 kernel: {}", SE_LINUX.replace("type=AVC msg=", "type=1400 ")),
            // A thread of the server has a name of its own.
            SE_LINUX.replace("comm=\"mysqld\"", "comm=\"ib_io_wr-1\""),
            // In a container the domain is the container's.
            SE_LINUX.replace(":mysqld_t:s0", ":container_t:s0:c114,c1019"),
            SE_LINUX[..SE_LINUX.find(" ino=").unwrap()].to_owned(),
            "SELinux is preventing /usr/libexec/mysqld from write access on the directory /data.".to_owned(),
            "Mar 12 03:10:11 db1 setroubleshoot[99]: SELinux is preventing mariadbd from 'read, write' accesses on the file x.".to_owned(),
        ] {
            let parts = recognise("audit.log", &format!("{line}\n"));
            let kinds: Vec<Kind> = parts.iter().map(|part| part.kind).collect();
            assert_eq!(kinds, [Kind::ErrorLog], "{line}: {parts:#?}");
            assert!(parts[0].says[0].starts_with("AppArmor or SELinux refused a file"), "{line}: {:?}", parts[0].says);
            let findings = spindoctor_rules::diagnose(&window(&parts)).findings;
            let found: Vec<&str> = findings.iter().map(|finding| finding.cause.as_str()).collect();
            assert_eq!(found, ["server-stopped"], "{line}");
            assert!(findings[0].headline.ends_with("it cannot open a file that it needs"), "{line}");
        }
    }

    #[test]
    fn what_a_server_does_without_and_what_is_let_through_is_said_and_is_no_finding() {
        for (line, meaning) in [
            (APP_ARMOR.replace("/data/mysql/ibdata1", "/sys/devices/system/node/"), OTHER),
            (APP_ARMOR.replace("\"open\"", "\"capable\""), OTHER),
            (SE_LINUX.replace("permissive=0", "permissive=1"), PERMISSIVE),
            (SE_LINUX.replace("tclass=dir", "tclass=process"), OTHER),
            // Another server's socket is no port.
            (SE_LINUX.replace("{ write }", "{ connectto }").replace("=dir", "=unix_stream_socket"), OTHER),
            (SE_LINUX.replace("dm-0", "sysfs").replace("\"data\"", "\"online\""), OTHER),
            (SE_LINUX.replace("dm-0", "cgroup").replace("{ write }", "{ search }"), OTHER),
            ("SELinux is preventing mysqld from using the dac_override capability.".to_owned(), OTHER),
            ("SELinux is preventing mysqld from using the ptrace access on a process.".to_owned(), OTHER),
            ("SELinux is preventing mysqld from read access on the directory /sys/node.".to_owned(), OTHER),
            ("SELinux is preventing mysqld from name_bind access on the tcp_socket port 1.".to_owned(), PORT),
            (SE_LINUX.replace("{ write }", "{ name_bind }").replace("tclass=dir", "tclass=tcp_socket"), PORT),
        ] {
            let parts = recognise("x", &format!("{line}\n"));
            assert_eq!(parts[0].kind, Kind::ErrorLog, "{line}: {parts:#?}");
            assert!(parts[0].says[0].starts_with(MEANINGS[meaning].0), "{line}: {:?}", parts[0].says);
            assert!(spindoctor_rules::diagnose(&window(&parts)).findings.is_empty(), "{line}");
        }
    }

    #[test]
    fn what_was_refused_to_another_program_is_no_line_of_a_server() {
        for line in [
            APP_ARMOR.replace("mysqld", "cupsd"),
            APP_ARMOR.replace("DENIED", "ALLOWED"),
            SE_LINUX.replace("mysqld", "nginx"),
            // What another program wanted of the server's.
            SE_LINUX.replace("comm=\"mysqld\"", "comm=\"logrotate\"").replace(":mysqld_t:", ":logrotate_t:"),
            "SELinux is preventing /usr/sbin/httpd from write access on the directory mysqld.".to_owned(),
        ] {
            assert!(
                recognise("x", &format!("{line}\n")).iter().all(|part| part.kind == Kind::Unknown),
                "{line}"
            );
        }
    }

    #[test]
    fn a_line_of_the_audit_log_has_its_time() {
        let shown = |line: &str| time(line).map(|time| time.to_string());
        assert_eq!(shown(SE_LINUX).as_deref(), Some("2024-07-13T03:16:08"));
        assert_eq!(shown("audit(99999999999999999:1)"), None);
        assert_eq!(shown("no audit"), None);
        let says = recognise("x", &format!("{SE_LINUX}\n{SE_LINUX}\n")).remove(0).says;
        assert!(says[0].ends_with(", 2 times, last at 2024-07-13 03:16:08"), "{says:?}");
    }

    #[test]
    fn a_server_that_started_afterwards_was_not_kept_from_it() {
        let log = format!(
            "{SE_LINUX}\n2024-07-13T03:20:00.123456Z 0 [System] [MY-010931] [Server] /usr/sbin/mysqld: ready for connections. Version: \
             '8.0.36'  socket: '/tmp/a.sock'  port: 3306  MySQL Community Server - GPL.\n"
        );
        let parts = recognise("x", &log);
        assert!(parts[0].says[0].ends_with("; that is over"), "{:?}", parts[0].says);
        assert!(spindoctor_rules::diagnose(&window(&parts)).findings.is_empty());
    }
}
