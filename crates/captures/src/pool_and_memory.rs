//! A buffer pool that the host's memory has no room for, where one text has both: an option file or the variables, and what `top` or `free`
//! says.

use spindoctor_model::number;

use crate::part::{Part, Said};

/// A pool of so much of the memory leaves too little for connections and the kernel. By judgement; the manual of MySQL advises 50 to 75 %.
const TOO_MUCH: f64 = 0.9;

/// Says so of each part that sets such a pool.
pub(crate) fn say(parts: &mut [Part], memory_bytes: f64) {
    for part in parts {
        let values = part.moments.iter().flat_map(|moment| &moment.said).find_map(|said| match said {
            Said::Options(values) | Said::Variables(values) => Some(values),
            _ => None,
        });
        let pool_bytes = values.and_then(|values| values.number("innodb_buffer_pool_size"));
        if let Some(pool_bytes) = pool_bytes.filter(|bytes| *bytes >= TOO_MUCH * memory_bytes) {
            part.says.push(format!(
                "innodb_buffer_pool_size is {}, and the host has {} of memory: it swaps, or kills the server, when the pool fills. Where nothing \
                 else runs there, up to three quarters of the memory have room for connections beside them",
                number::bytes(pool_bytes),
                number::bytes(memory_bytes)
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::recognise;

    #[test]
    fn a_pool_that_the_memory_has_no_room_for_is_said() {
        let text = |pool: &str, memory: &str| {
            format!(
                "{memory}\n\n# cat /etc/my.cnf\n[mysqld]\ninnodb_buffer_pool_size = {pool}\nmax_connections = 500\n"
            )
        };
        let said = |pool: &str, memory: &str| {
            let says = recognise("x", &text(pool, memory)).into_iter().flat_map(|part| part.says);
            says.filter(|one| one.starts_with("innodb_buffer_pool_size is ")).collect::<Vec<_>>()
        };
        let free = "              total        used        free      shared  buff/cache   available\n\
                    Mem:          8.0Gi       1.5Gi       5.0Gi       2.0Mi       1.5Gi       6.0Gi";
        let top = "top - 11:10:35 up 3 days,  2:20,  1 user,  load average: 0.30, 0.68, 1.13\n\
                   %Cpu(s):  4.7 us,  8.6 sy,  0.0 ni, 82.5 id,  4.1 wa,  0.0 hi,  0.1 si,  0.0 st\n\
                   MiB Mem :   8192.0 total,   5101.0 free,   1701.0 used,   1180.0 buff/cache";
        let old_top = "top - 11:10:35 up 3 days,  2:20,  1 user,  load average: 0.30, 0.68, 1.13\n\
                       Mem:   8388608k total,  2613172k used,  5336644k free,    83848k buffers";
        for memory in [free, top, old_top] {
            let found = said("12G", memory);
            let wanted = "innodb_buffer_pool_size is 12 GiB, and the host has 8 GiB of memory";
            assert!(found.len() == 1 && found[0].starts_with(wanted), "{memory}: {found:?}");
            assert_eq!(said("6G", memory), Vec::<String>::new(), "{memory}");
        }
        // Of `free -m` the unit is not in the text.
        assert_eq!(said("12G", &free.replace("8.0Gi", "8192")), Vec::<String>::new());
    }
}
