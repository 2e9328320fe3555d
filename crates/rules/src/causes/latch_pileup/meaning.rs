//! What the end of the waits means: the headline, and the reason.

use spindoctor_model::innodb_status::SemaphoreWait;
use spindoctor_model::number;

use super::chain::{End, has_itself, reads_its_page};
use super::threads::Threads;
use crate::wait_graph::latch_named;

/// How long somebody waits for which latch, and behind whom.
pub(super) fn headline(end: &End<'_>, threads: &Threads<'_>, longest_s: f64) -> String {
    match end {
        End::Ring(waits) => format!(
            "{} threads wait for each other's latches ({}): {}",
            waits.len(),
            waits.iter().map(|wait| latch_named(wait)).collect::<Vec<_>>().join(" and "),
            match has_lasted(waits, threads) {
                true => "only a restart frees them",
                false => "whether it lasts, a second list says",
            }
        ),
        End::Chain(waits) => {
            let (Some(first), Some(last)) = (waits.first(), waits.last()) else { return String::new() };
            let waited = number::duration(longest_s);
            let end = match (last.holder_pthread_id, waits.len()) {
                (Some(holder), _) => format!(", which {} has", threads.named(holder)),
                (None, 1) if reads_its_page(last) => {
                    format!(
                        ": {} reads that page from disk, and the read does not end",
                        threads.named(last.pthread_id)
                    )
                }
                (None, 1) if has_itself(last) => {
                    format!(
                        ", which {} wants and has itself: it never gets it",
                        threads.named(last.pthread_id)
                    )
                }
                (None, 1) => ", whose holder the text does not name".to_owned(),
                (None, _) if reads_its_page(last) => format!(
                    "; {}, behind which they wait, reads a page from disk, and the read does not end",
                    threads.named(last.pthread_id)
                ),
                (None, _) if has_itself(last) => format!(
                    "; {}, behind which they wait, wants the {} and has it itself: it never gets it",
                    threads.named(last.pthread_id),
                    latch_named(last)
                ),
                (None, _) => format!(
                    "; {}, behind which they wait, itself waits for the {}",
                    threads.named(last.pthread_id),
                    latch_named(last)
                ),
            };
            format!("{waited} of waiting for the {}{end}", latch_named(first))
        }
    }
}

/// A ring of which each wait has lasted so long is one of the same moment, seconds: the text counts whole ones. Chosen.
const OF_ONE_MOMENT_S: f64 = 1.0;

/// True where the waits of a ring are no chance of a list that is not of one instant. What somebody captured was captured because it hangs.
pub(super) fn has_lasted(waits: &[&SemaphoreWait], threads: &Threads<'_>) -> bool {
    threads.window.is_given() || waits.iter().all(|wait| wait.waited_s >= OF_ONE_MOMENT_S)
}

/// Why that does not end by itself.
pub(super) fn why(end: &End<'_>, threads: &Threads<'_>) -> String {
    match end {
        End::Ring(waits) if !has_lasted(waits, threads) => {
            "The list is written thread by thread, and latches change hands meanwhile: waits of no length may be of two moments. Where a \
             second list has the same threads, it is a ring that never ends."
                .to_owned()
        }
        End::Ring(_) => "Each has the latch that the next one wants. InnoDB takes latches in a fixed order, so that this cannot \
                         happen: it is a defect of the server."
            .to_owned(),
        End::Chain(waits) => match waits.last() {
            Some(last) => match (last.holder_pthread_id, last.readers.filter(|readers| *readers > 0)) {
                (Some(holder), _) => format!(
                    "{} keeps the latch and waits for no other latch: what it does meanwhile, its stack says.",
                    threads.first_named(holder)
                ),
                (None, Some(readers)) => format!(
                    "{} wants the latch alone and waits until {} it. The text does not name readers, so who keeps all \
                     others is not known: stacks of all threads would show it.",
                    threads.first_named(last.pthread_id),
                    number::counted(readers, "reader leaves", "readers leave")
                ),
                (None, None) if reads_its_page(last) => "Who reads a page has its latch until the read has ended, and everyone who wants \
                                                         that page, or a latch that the reader has, waits with it: the disk does not \
                                                         answer, or its driver has lost the request."
                    .to_owned(),
                (None, None) if has_itself(last) => "A thread that waits for a latch which it has never goes on, and no KILL reaches it: a \
                                                     defect of the server. InnoDB ends the server after 600 s."
                    .to_owned(),
                (None, None) => "The text does not name who has it; stacks of all threads would.".to_owned(),
            },
            None => String::new(),
        },
    }
}
