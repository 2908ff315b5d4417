use super::*;

fn linear(fixed: f64, per_token: f64, per_token_context: f64) -> Cost {
    Cost {
        time: Time::Linear {
            fixed,
            per_token,
            per_token_context,
        },
        secs_per_context: 0.0,
        context_block: 0.0,
        bytes_fixed: 0.0,
        bytes_per_token: 2.0,
        bytes_per_token_context: 1.0,
        bytes_per_context: 0.0,
        bytes_per_s_at_most: f64::INFINITY,
        rescale: None,
        measured_tokens: (1.0, 1024.0),
        measured_context: (0.0, 4096.0),
    }
}

#[test]
fn bytes_count_up_to_what_the_port_carries() {
    let mut cost = linear(0.0, 0.01, 0.0);
    cost.bytes_fixed = 1000.0;
    cost.bytes_per_token_context = 0.0;
    cost.bytes_per_s_at_most = 2000.0;
    // 10 tokens take 0.1 s, in which 200 bytes pass; 100 take 1 s, and want 1200.
    assert!((cost.at(10.0, 0.0).bytes - 200.0).abs() < 1e-9);
    assert!((cost.at(100.0, 0.0).bytes - 1200.0).abs() < 1e-9);
    assert!((cost.too_fast(10.0) - 1020.0 / 200.0).abs() < 1e-9);
    assert!((cost.too_fast(100.0) - 0.6).abs() < 1e-9);
}

#[test]
fn closed_form_equals_the_sum_over_tokens() {
    let cost = linear(0.0, 0.01, 1e-5);
    let whole = cost.at(100.0, 500.0);
    let mut secs = 0.0;
    let mut bytes = 0.0;
    for k in 0..100 {
        let step = cost.at(1.0, 500.0 + f64::from(k));
        secs += step.secs;
        bytes += step.bytes;
    }
    assert!((whole.secs - secs).abs() < 1e-9);
    assert!((whole.bytes - bytes).abs() < 1e-6);
}

#[test]
fn whole_blocks_are_read_by_each_token() {
    for (n, context) in [
        (1_u32, 0_u32),
        (1, 255),
        (1, 256),
        (16, 250),
        (300, 100),
        (7, 512),
    ] {
        let sum: u32 = (1..=n).map(|k| 256 * (context + k).div_ceil(256)).sum();
        let closed = context_read(n.into(), context.into(), 256.0);
        assert!(
            (closed - f64::from(sum)).abs() < 1e-6,
            "{n} {context}: {closed} {sum}"
        );
    }
    // Flat within a block, and a step between two.
    let cost = Cost {
        context_block: 256.0,
        ..linear(0.0, 0.01, 1e-5)
    };
    let at = |context: f64| cost.at(1.0, context).secs;
    assert!((at(10.0) - at(255.0)).abs() < 1e-12);
    assert!((at(256.0) - at(255.0) - 256e-5).abs() < 1e-12);
}

#[test]
fn what_is_done_once_over_the_context_does_not_depend_on_the_size() {
    let bare = linear(0.1, 0.01, 1e-5);
    let copying = Cost {
        secs_per_context: 2e-5,
        ..bare.clone()
    };
    for (n, context) in [(1.0, 0.0), (1.0, 500.0), (64.0, 500.0), (64.0, 2000.0)] {
        let reading = Cost {
            bytes_per_context: 3.0,
            ..bare.clone()
        };
        let read = reading.at(n, context).bytes - bare.at(n, context).bytes;
        assert!((read - 3.0 * context).abs() < 1e-6, "{n} {context} {read}");
        let more = copying.at(n, context).secs - bare.at(n, context).secs;
        assert!(
            (more - 2e-5 * context).abs() < 1e-12,
            "{n} {context} {more}"
        );
    }
}

#[test]
fn tables_interpolate_in_time_and_say_when_they_extrapolate() {
    // 292 tokens at 663 tok/s, 4132 at 266.92 tok/s: linear in time, not in tok/s.
    let mut cost = linear(0.0, 0.0, 0.0);
    cost.time = Time::Table {
        size: vec![292.0, 4132.0],
        secs: vec![292.0 / 663.0, 4132.0 / 266.92],
        per_token_context: 0.0,
    };
    cost.measured_tokens = (292.0, 4132.0);
    let middle = cost.at(2212.0, 0.0);
    assert!((middle.secs - 0.5 * (292.0 / 663.0 + 4132.0 / 266.92)).abs() < 1e-12);
    assert!(middle.measured);
    let beyond = cost.at(8192.0, 0.0);
    assert!(beyond.secs > 4132.0 / 266.92 && !beyond.measured);
}

fn table(size: &[f64], secs: &[f64]) -> Cost {
    let time = Time::Table {
        size: size.to_vec(),
        secs: secs.to_vec(),
        per_token_context: 0.0,
    };
    Cost {
        time,
        ..linear(0.0, 0.0, 0.0)
    }
}

#[test]
fn below_a_table_no_token_is_faster_than_at_its_least_size() {
    let at = |cost: &Cost, n: f64| cost.at(n, 0.0).secs;
    // Grows faster than its size: the line would be at 0 s for 48 tokens already.
    let steep = table(&[128.0, 512.0], &[0.5, 2.9]);
    assert!((at(&steep, 24.0) - 0.5 * 24.0 / 128.0).abs() < 1e-12);
    // Has a fixed part of 0.2 s: the line keeps it.
    let flat = table(&[128.0, 512.0], &[0.456, 1.224]);
    assert!((at(&flat, 24.0) - (0.2 + 24.0 * 0.002)).abs() < 1e-12);
    // Falls at its end, as noise has it: no more tokens in less time.
    let noisy = table(&[128.0, 512.0], &[1.0, 0.9]);
    assert!((at(&noisy, 8192.0) - 0.9).abs() < 1e-12 && at(&noisy, 24.0) > 1.0);
    // One size alone, and one of nothing.
    let one = table(&[100.0], &[0.5]);
    assert!((at(&one, 20.0) - 0.1).abs() < 1e-12 && (at(&one, 400.0) - 2.0).abs() < 1e-12);
    assert!((at(&table(&[0.0], &[0.5]), 7.0) - 0.5).abs() < 1e-12);
    for cost in [steep, flat, noisy, one] {
        let times: Vec<f64> = (1..2000).map(|n| at(&cost, f64::from(n))).collect();
        assert!(times.iter().all(|&secs| secs > 0.0));
        for (n, pair) in (1..).zip(times.windows(2)) {
            let jump = (pair[1] - pair[0]).abs();
            assert!(jump < 0.02, "{jump} s between {n} and the next");
        }
    }
}

#[test]
fn a_memory_narrower_than_the_port_stretches_what_it_cannot_carry() {
    for overlap in [1.0, 3.0, 8.0] {
        let mut cost = linear(0.0, 0.01, 0.0);
        cost.bytes_per_token_context = 0.0;
        cost.bytes_per_token = 90.0;
        cost.bytes_per_s_at_most = 10_000.0;
        let on_port = cost.at(100.0, 0.0);
        cost.rescale = Some(Rescale {
            stretch: 5.0,
            faster: 1.0,
            overlap: Overlap::new(overlap),
        });
        let at = cost.at(100.0, 0.0);
        // 1 s alone, of which 0.9 s is memory time that becomes 4.5 s; the compute time stays.
        let compute = 1.0 - 0.9_f64.powf(overlap);
        let secs = (compute + 4.5_f64.powf(overlap)).powf(1.0 / overlap);
        assert!((at.secs - secs).abs() < 1e-9, "{overlap}: {}", at.secs);
        assert!(at.bytes == on_port.bytes && at.bytes / at.secs <= 2000.0);
        // What moves nothing is as fast as ever.
        cost.bytes_per_token = 0.0;
        assert!((cost.at(100.0, 0.0).secs - on_port.secs).abs() < 1e-12);
    }
}

/// To see it fail, let a stretch below 1 change nothing.
#[test]
fn a_wider_port_and_more_compute_shorten_each_its_part() {
    for overlap in [1.0, 3.0, 8.0] {
        let mut cost = linear(0.0, 0.01, 0.0);
        cost.bytes_per_token_context = 0.0;
        cost.bytes_per_token = 90.0;
        cost.bytes_per_s_at_most = 10_000.0;
        let mut secs = |stretch: f64, faster: f64| {
            let overlap = Overlap::new(overlap);
            cost.rescale = Some(Rescale {
                stretch,
                faster,
                overlap,
            });
            cost.at(100.0, 0.0).secs
        };
        // 1 s alone, of which 0.9 s is memory time.
        let compute = 1.0 - 0.9_f64.powf(overlap);
        let joined =
            |memory: f64, compute: f64| (compute + memory.powf(overlap)).powf(1.0 / overlap);
        let wide = secs(0.5, 1.0);
        assert!(
            (wide - joined(0.45, compute)).abs() < 1e-9,
            "{overlap}: {wide}"
        );
        let fast = secs(1.0, 2.0);
        let halved = compute / 2.0_f64.powf(overlap);
        assert!(
            (fast - joined(0.9, halved)).abs() < 1e-9,
            "{overlap}: {fast}"
        );
        // Twice the SoC takes half the time.
        assert!((secs(0.5, 2.0) - 0.5).abs() < 1e-9, "{overlap}");
        assert!((secs(2.0, 0.5) - 2.0).abs() < 1e-9, "{overlap}");
    }
    // What copies has no compute time.
    let mut copy = linear(0.0, 0.0, 0.0);
    copy.time = Time::Transfer {
        fixed: 0.0,
        bytes_per_s: 100.0,
    };
    copy.bytes_per_s_at_most = 1000.0;
    copy.rescale = Some(Rescale {
        stretch: 1.0,
        faster: 2.0,
        overlap: Overlap::new(3.0),
    });
    assert!((copy.at(100.0, 0.0).secs - 1.0).abs() < 1e-12);
}
