//! Files of any size stream: memory does not grow with them.

use std::io::{self, BufReader, Read, Write};

use peak_alloc::PeakAlloc;
use profiles::import::{Kind, Options, Sink, Source, import};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Counts what is written.
struct Count(usize);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Count {
    fn many(&self) -> bool {
        false
    }

    fn create(&mut self, _: &str) -> io::Result<Box<dyn Write + '_>> {
        Ok(Box::new(self))
    }

    fn discard(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }
}

/// Lines made while they are read.
struct Made<F> {
    line: F,
    next: usize,
    held: Vec<u8>,
    at: usize,
}

impl<F: FnMut(usize) -> Option<String>> Made<F> {
    fn new(line: F) -> Self {
        Self {
            line,
            next: 0,
            held: Vec::new(),
            at: 0,
        }
    }
}

impl<F: FnMut(usize) -> Option<String>> Read for Made<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.held.len() {
            let Some(line) = (self.line)(self.next) else {
                return Ok(0);
            };
            self.held = line.into_bytes();
            self.at = 0;
            self.next += 1;
        }
        let count = buffer.len().min(self.held.len() - self.at);
        buffer[..count].copy_from_slice(&self.held[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

fn peak_mib(kind: Kind, line: impl FnMut(usize) -> Option<String> + 'static) -> (f32, usize) {
    let source = Source::new("made", BufReader::new(Made::new(line)));
    let mut sink = Count(0);
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage_as_mb();
    let notes =
        import(kind, vec![source], &Options::default(), &mut sink).expect("it takes everything");
    assert_eq!(notes.wrote, 1, "{:?}", notes.list);
    (MEMORY.peak_usage_as_mb() - before, sink.0)
}

// One test: the allocator counts the whole process.
#[test]
fn memory_does_not_grow_with_the_file() {
    // 100 makes a trace of 1 GB and a profile of 1 GB, 200 twice that.
    let scale: usize = std::env::var("CROSSINFER_SCALE")
        .ok()
        .and_then(|scale| scale.parse().ok())
        .unwrap_or(1);
    let rows = 120_000 * scale;
    let events = 20_000 * scale;
    let (peak, written) = peak_mib(Kind::Trace, move |index| match index {
        0 => Some("arrived_at,num_prefill_tokens,num_decode_tokens,note\n".to_owned()),
        index if index <= rows => Some(format!(
            "{index}.5,{},20,forty bytes or more of what is passed over\n",
            index % 4000 + 1
        )),
        _ => None,
    });
    assert!(written > 1_500_000, "{written}");
    assert!(peak < 5.0, "{peak} MiB for a trace of {scale} times 10 MiB");
    let padding = "x".repeat(400);
    let (peak, _) = peak_mib(Kind::OrtProfile, move |index| match index {
        0 => Some("[\n".to_owned()),
        // Runs of 49 nodes.
        index if index <= events => {
            let (name, cat, ts, dur) = if index % 50 == 0 {
                ("model_run", "Session", (index - 50) * 100, 4990)
            } else {
                ("n_kernel_time", "Node", index * 100 - 100, 90)
            };
            let end = if index == events { "\n]\n" } else { ",\n" };
            Some(format!(
                "{{\"cat\" : \"{cat}\",\"pid\" :1,\"tid\" :1,\"dur\" :{dur},\"ts\" :{ts},\"ph\" : \"X\",\"name\" :\"{name}\",\"args\" : {{\"padding\" : \"{padding}\",\"provider\" : \"CPUExecutionProvider\"}}}}{end}"
            ))
        }
        _ => None,
    });
    assert!(
        peak < 0.5,
        "{peak} MiB for a profile of {scale} times 10 MiB"
    );
}
