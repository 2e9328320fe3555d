//! How fast it simulates: `cargo run --release -p spindoctor-predict --example speed`.
#![allow(clippy::print_stdout, reason = "it prints its result")]

use std::time::Instant;

use spindoctor_predict::{
    Effort, Flavor, Ground, Hardware, Measured, Parameters, Settings, Workload, simulate,
};

fn main() {
    let measured = vec![Measured { threads: 1, throughput_per_s: 12_000.0 }];
    let hardware = Hardware { cpus: 24, numa_nodes: 2, ..Hardware::default() };
    let mut ground = Ground {
        hardware,
        settings: Settings::for_flavor(Flavor::Mysql55),
        workload: Workload::Reads,
        flush_ns: 0.0,
        server_share: 1.0,
        measured,
    };
    let parameters = Parameters::assumed(&ground);
    for threads in [1, 16, 64, 256, 1024] {
        let begun = Instant::now();
        let effort = Effort { events: 4_000_000, transactions: u64::MAX, ..Effort::default() };
        let outcome = simulate(&ground.world(&parameters), threads, 1, effort);
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "{threads:5} connections: {:.1} million latch operations and {:.1} million events a second",
            outcome.latch_operations as f64 * 4.0 / 3.0 / seconds / 1e6,
            outcome.events as f64 / seconds / 1e6
        );
    }
    let begun = Instant::now();
    for loops in [0.0, 30.0, 100.0, 200.0] {
        ground.settings.spin_loops = loops;
        for power in 0..11 {
            simulate(&ground.world(&parameters), 1 << power, 1, Effort::default());
        }
    }
    println!("11 numbers of connections with 4 settings: {:.2} s", begun.elapsed().as_secs_f64());
}
