use super::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sealed_lines_come_back_and_damage_is_seen(
        texts in prop::collection::vec("[ -~é]{0,12}", 1..6), at in 0..400_usize, bit in 0..8_u8,
    ) {
        let line = seal(&texts);
        let body = unseal(&line).expect("is whole");
        prop_assert_eq!(fields(body), Some(texts));
        let mut damaged = line.clone();
        let at = at % (line.len() - 1);
        damaged[at] ^= 1 << bit;
        prop_assert_eq!(unseal(&damaged), None);
        prop_assert_eq!(unseal(&line[..at]), None);
    }

    #[test]
    fn shards_part_all_cells(cells in 0..200_u64, of in 1..20_u64) {
        let mut all: Vec<u64> = (1..=of)
            .flat_map(|part| {
                let shard = Shard { part, of };
                (0..shard.count(cells)).map(move |place| shard.cell(place))
            })
            .collect();
        all.sort_unstable();
        prop_assert!(all.into_iter().eq(0..cells));
    }
}

#[test]
fn shards_are_read() {
    assert_eq!("2/3".parse(), Ok(Shard { part: 2, of: 3 }));
    for text in ["0/3", "4/3", "1", "a/b", "1/0"] {
        assert!(text.parse::<Shard>().is_err(), "{text}");
    }
}
