//! How far the last start of a log had come when a signal ended the server: a probe, systemd or a supervisor did not wait for its end.

use jiff::civil::DateTime;
use spindoctor_model::{LoggedTrouble, TroubleKind, number};

use crate::{clock, log_troubles};

/// What a server prints when InnoDB recovers after a crash, and when that is done (log0recv.cc, srv0start.cc), in lower case.
const RECOVERS: [&str; 5] = [
    "starting crash recovery",
    "was not shut down normally",
    "was not shutdown normally",
    "starting final batch to recover",
    "applying a batch of ",
];
const HAS_RECOVERED: [&str; 2] = ["initialization has ended", " started; log sequence number "];

/// Says beside a signal that ended the server how far its start had come.
pub(crate) fn add_detail(troubles: &mut [LoggedTrouble], text: &str) {
    let is_ended = |trouble: &&mut LoggedTrouble| trouble.kind == TroubleKind::EndedBySignal;
    let mut ended = troubles.iter_mut().filter(is_ended).peekable();
    if let Some(detail) = ended.peek().and_then(|_| how_far(text)) {
        ended.for_each(|trouble| trouble.detail.clone_from(&detail));
    }
}

/// How long the last start takes, where the log ends before it does.
fn how_far(text: &str) -> Option<String> {
    let (mut begun, mut last): (Option<DateTime>, Option<DateTime>) = (None, None);
    let mut recovers = false;
    for line in text.lines() {
        let lower = line.to_ascii_lowercase();
        let time = clock::time(line).filter(|_| line.starts_with(|c: char| c.is_ascii_digit()));
        if log_troubles::begins_start(&lower) {
            (begun, recovers) = (time, false);
        } else if lower.contains("ready for connections") && !lower.contains("x plugin ready") {
            begun = None;
        }
        last = time.or(last);
        let has = |signs: &[&str]| signs.iter().any(|sign| lower.contains(sign));
        recovers = (recovers || has(&RECOVERS)) && !has(&HAS_RECOVERED);
    }
    let took_s = clock::seconds(begun?, last?);
    let what = if recovers { ", and InnoDB was recovering after a crash" } else { "" };
    (took_s > 0.0)
        .then(|| format!("the last start in its log had not ended after {}{what}", number::tenths(took_s)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = "2024-05-02T09:00:01.0Z 0 [System] [MY-010116] [Server] /usr/sbin/mysqld (mysqld 8.0.36) starting as process 1\n";
    const RECOVERY: &str = "2024-05-02T09:00:03.0Z 1 [Note] [MY-012552] [InnoDB] Starting crash recovery.\n2024-05-02T09:01:00.0Z 1 [Note] \
                            [MY-012533] [InnoDB] 41%\n";
    const READY: &str =
        "2024-05-02T09:02:00.0Z 0 [System] [MY-010931] [Server] mysqld: ready for connections.\n";

    #[test]
    fn a_start_that_had_not_ended_says_how_long_it_took() {
        let wanted =
            "the last start in its log had not ended after 59 s, and InnoDB was recovering after a crash";
        assert_eq!(how_far(&format!("{START}{RECOVERY}")).as_deref(), Some(wanted));
        let recovered =
            "2024-05-02T09:01:01.0Z 1 [System] [MY-013577] [InnoDB] InnoDB initialization has ended.\n";
        let later = how_far(&format!("{START}{RECOVERY}{recovered}"));
        assert_eq!(later.as_deref(), Some("the last start in its log had not ended after 60 s"));
        assert_eq!(how_far(&format!("{START}{RECOVERY}{READY}")), None);
        assert_eq!(how_far(RECOVERY), None);
    }

    #[test]
    fn a_server_that_a_probe_ended_in_its_recovery_says_so_in_the_headline() {
        for (probe, begins) in [
            (
                "liveness",
                "Kubernetes ended the server, because its liveness probe failed: the last start in its log had not",
            ),
            (
                "startup",
                "Kubernetes ended the server, because its startup probe failed: the last start in its log had not",
            ),
        ] {
            let event = format!(
                "  Normal   Killing  2m  kubelet  Container mysql failed {probe} probe, will be restarted\n"
            );
            let parts = crate::recognise("a", &format!("{event}{START}{RECOVERY}"));
            let found = spindoctor_rules::diagnose(&crate::window(&parts)).findings;
            assert!(found.len() == 1 && found[0].headline.starts_with(begins), "{found:#?}");
        }
    }
}
