//! What `perf stat` counts of a process: how many instructions its CPUs end in a cycle.
//!
//! ```text
//!  Performance counter stats for process id '4711':
//!
//!         412,311.22 msec task-clock                #   41.112 CPUs utilized
//!  1,112,331,998,112      cycles                    #    2.698 GHz
//!    112,331,998,112      instructions              #    0.10  insn per cycle
//! ```

use crate::amounts::amount;
use crate::system::{MOST_ROWS, SystemText};

/// Fewer instructions a cycle are worth a sentence. By judgement: servers that run statements in memory have more than half of one.
const FEW: f64 = 0.3;

/// True for the head of such a list.
pub(crate) fn is_head(line: &str) -> bool {
    line.trim_start().starts_with("Performance counter stats for ")
}

/// Says that they are few.
pub(crate) fn read(text: &str, found: &mut SystemText) {
    if !text.lines().any(is_head) {
        return;
    }
    let remark = |line: &str, names: &[&str]| {
        let (_, remark) = line.split_once('#')?;
        let name = names.iter().find(|name| remark.contains(**name))?;
        amount(&remark.split(name).next()?.trim().replace(',', "."))
    };
    let last = |names: &[&str]| text.lines().take(MOST_ROWS).filter_map(|line| remark(line, names)).last();
    let Some(few) = last(&["insn per cycle", "insns per cycle"]).filter(|few| *few < FEW) else { return };
    let cpus = last(&["CPUs utilized"]).map_or_else(String::new, |cpus| format!(" of {cpus:.1} CPUs in use"));
    let sentence = format!(
        "{few:.2} instructions end in a cycle{cpus}: they wait for memory or for each other, as where threads spin; perf top says in which \
         functions"
    );
    found.add("perf stat", None, sentence);
}

#[cfg(test)]
mod tests {
    use crate::{recognise, system};

    #[test]
    fn few_instructions_a_cycle_are_said_and_many_are_not() {
        let text = " Performance counter stats for process id '47':\n\n        412,311.22 msec task-clock                #   41.112 CPUs utilized\n \
                    1,112,331,998,112      cycles                    #    2.698 GHz\n   \
                    112,331,998,112      instructions              #    0.10  insn per cycle\n      \
                    2,021,349,865      cache-misses              #    6.669 % of all cache refs\n";
        let parts = recognise("x", &format!("This is what perf counts.\n\n{text}"));
        let says: Vec<&String> = parts.iter().flat_map(|part| &part.says).collect();
        assert!(
            says.len() == 1 && says[0].starts_with("0.10 instructions end in a cycle of 41.1 CPUs"),
            "{says:?}"
        );
        assert_eq!(system::read(&text.replace("0.10  insn", "1.10  insns")).says, Vec::<String>::new());
    }
}
