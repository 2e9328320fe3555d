//! What the end of the waits means: the headline, and the reason.

use spindoctor_model::number;

use super::chain::{End, has_itself, reads_its_page};
use super::threads::Threads;
use crate::wait_graph::latch_named;

/// How long somebody waits for which latch, and behind whom.
pub(super) fn headline(end: &End<'_>, threads: &Threads<'_>, longest_s: f64) -> String {
    match end {
        End::Ring(waits) => format!(
            "{} threads wait for each other's latches ({}): only a restart frees them",
            waits.len(),
            waits.iter().map(|wait| latch_named(wait)).collect::<Vec<_>>().join(" and ")
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

/// Why that does not end by itself.
pub(super) fn why(end: &End<'_>, threads: &Threads<'_>) -> String {
    match end {
        End::Ring(_) => "Each has the latch that the next one wants. InnoDB takes latches in a fixed order, so that this cannot \
                         happen: it is a defect of the server."
            .to_owned(),
        End::Chain(waits) => match waits.last() {
            Some(last) => match (last.holder_pthread_id, last.readers.filter(|readers| *readers > 0)) {
                (Some(holder), _) => format!(
                    "{} keeps the latch: what it does meanwhile, its stack says.",
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
