//! Whether columns fit together, and how they are shortened.

use super::{Detail, Requests, Slices, Versions};

impl Detail {
    /// Whether columns are of equal length and name what there is; an error says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        if self.kind != "detail" {
            return Err("`kind` is not `detail`".into());
        }
        let same = |what: &str, lengths: &[usize]| {
            if lengths.windows(2).all(|pair| pair[0] == pair[1]) {
                Ok(())
            } else {
                Err(format!("the columns of `{what}` differ in length"))
            }
        };
        same("lanes", &[self.lanes.len(), self.lane_engines.len()])?;
        same("stages", &[self.stages.len(), self.stage_kinds.len()])?;
        let known = |what: &str, ids: Vec<usize>, count: usize| match ids
            .into_iter()
            .find(|&id| id >= count)
        {
            Some(id) => Err(format!("there is no {what} {id}")),
            None => Ok(()),
        };
        known("engine", self.lane_engines.clone(), self.engines.len())?;
        let wide = |list: &[u8]| list.iter().map(|&id| id.into()).collect::<Vec<usize>>();
        let streams = |list: &[u16]| list.iter().map(|&id| id.into()).collect::<Vec<usize>>();
        for run in &self.runs {
            let s = &run.slices;
            same(
                "slices",
                &[
                    s.lane.len(),
                    s.stage.len(),
                    s.stream.len(),
                    s.start.len(),
                    s.length.len(),
                    s.alone.len(),
                    s.query.len(),
                    s.version.len(),
                    s.size.len(),
                    s.context.len(),
                ],
            )?;
            known("lane", wide(&s.lane), self.lanes.len())?;
            known("stage", wide(&s.stage), self.stages.len())?;
            known("stream", streams(&s.stream), self.streams.len())?;
            let v = &run.versions;
            same(
                "versions",
                &[
                    v.stream.len(),
                    v.version.len(),
                    v.at.len(),
                    v.tokens.len(),
                    v.lane.len(),
                ],
            )?;
            known("stream", streams(&v.stream), self.streams.len())?;
            let made: Vec<u8> = v.lane.iter().copied().flatten().collect();
            known("lane", wide(&made), self.lanes.len())?;
            let q = &run.requests;
            same(
                "requests",
                &[
                    q.stream.len(),
                    q.index.len(),
                    q.arrived.len(),
                    q.ended.len(),
                    q.ttft.len(),
                    q.lane.len(),
                    q.version.len(),
                    q.preparation.len(),
                    q.prompt.len(),
                    q.output.len(),
                    q.frames_behind.len(),
                    q.waiting.len(),
                    q.waiting_for_version.len(),
                    q.preparing.len(),
                    q.slowdown.len(),
                    q.service.len(),
                    q.refused.len(),
                ],
            )?;
            known("stream", streams(&q.stream), self.streams.len())?;
            let answered: Vec<u8> = q.lane.iter().copied().flatten().collect();
            known("lane", wide(&answered), self.lanes.len())?;
            same("busy", &[run.series.busy.len(), self.lanes.len()])?;
            same("engines", &[run.engines.len(), self.engines.len()])?;
            if let Some(choices) = &run.choices {
                same("choices", &[choices.lane.len(), choices.backlog.len()])?;
                for row in &choices.lane {
                    same("choices", &[row.len(), choices.context.len()])?;
                    let picked: Vec<u8> = row.iter().copied().flatten().collect();
                    known("lane", wide(&picked), self.lanes.len())?;
                }
                known("stream", streams(&[choices.stream]), self.streams.len())?;
            }
        }
        Ok(())
    }
}

impl Slices {
    /// End of the last one that is kept, ns.
    pub fn end(&self) -> u64 {
        let ends = self.start.iter().zip(&self.length);
        ends.map(|(start, length)| start + length)
            .max()
            .unwrap_or(0)
    }

    /// Leaves out all rows from `rows` on.
    pub fn truncate(&mut self, rows: usize) {
        self.lane.truncate(rows);
        self.stage.truncate(rows);
        self.stream.truncate(rows);
        self.start.truncate(rows);
        self.length.truncate(rows);
        self.alone.truncate(rows);
        self.query.truncate(rows);
        self.version.truncate(rows);
        self.size.truncate(rows);
        self.context.truncate(rows);
        self.failed.retain(|&row| row < rows);
    }
}

impl Versions {
    /// Leaves out what was published after `end`, ns.
    pub fn truncate_after(&mut self, end: u64) {
        let rows = self.at.iter().take_while(|&&at| at <= end).count();
        self.stream.truncate(rows);
        self.version.truncate(rows);
        self.at.truncate(rows);
        self.tokens.truncate(rows);
        self.lane.truncate(rows);
    }
}

impl Requests {
    /// Thins the rows evenly until there are at most `rows`.
    pub fn thin_to(&mut self, rows: usize) {
        while self.len() > rows.max(1) {
            self.halve();
        }
    }
}
