use super::*;
use crate::{Entry, EntryMode, TreePath};
use proptest::prelude::*;

fn segment(store: &ObjectStore, contents: &[&[u8]]) -> (NewSegment, Vec<Located>) {
    let new = store.new_segment().unwrap();
    let mut offset = 0;
    let mut located = Vec::new();
    for bytes in contents {
        new.file.write_all_at(bytes, offset).unwrap();
        let len = bytes.len() as u64;
        located.push(Located { digest: Digest::of(bytes), segment: 0, offset, len });
        offset += len;
    }
    (new, located)
}

fn manifest_of(contents: &[&[u8]]) -> Manifest {
    let entry = |(at, bytes): (usize, &&[u8])| Entry {
        path: TreePath::new(format!("f{at}").as_bytes()).unwrap(),
        mode: EntryMode::File,
        size: bytes.len() as u64,
        digest: Digest::of(bytes),
    };
    Manifest::new(contents.iter().enumerate().map(entry).collect())
}

fn names_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_later_process_finds_a_manifest_and_its_contents() {
    let dir = tempfile::tempdir().unwrap();
    let contents: [&[u8]; 3] = [b"one", b"", b"three"];
    let manifest = manifest_of(&contents);
    let digest = {
        let store = ObjectStore::open(dir.path()).unwrap();
        for one in contents {
            let (new, located) = segment(&store, &[one]);
            store.adopt(new, &located, Durability::Later).unwrap();
        }
        let digest = store.put_manifest(&manifest, Durability::Later).unwrap();
        store.sync_pending().unwrap();
        digest
    };
    assert_eq!(digest, manifest.digest());
    let store = ObjectStore::open(dir.path()).unwrap();
    assert!(!store.contains(&Digest::of(b"one")));
    assert_eq!(store.manifest(&digest).unwrap(), manifest);
    for one in contents {
        assert_eq!(store.read(&Digest::of(one)).unwrap(), one);
    }
    let digests: Vec<Digest> = contents.iter().map(|c| Digest::of(c)).collect();
    let batches = store.locate(&digests, 2).unwrap();
    assert_eq!(batches.iter().map(|b| b.files.len()).collect::<Vec<_>>(), [2, 1]);
    for batch in batches.iter().chain([&store.gather(&digests, 1).unwrap()]) {
        for l in &batch.located {
            let mut bytes = vec![0; l.len as usize];
            batch.files[l.segment as usize].read_exact_at(&mut bytes, l.offset).unwrap();
            assert_eq!(Digest::of(&bytes), l.digest);
        }
    }
}

#[test]
fn a_wrong_claim_adopts_nothing_and_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = ObjectStore::open(dir.path()).unwrap();
    let spoil: [fn(&mut Located); 5] = [
        |l| l.digest = Digest::of(b"other"),
        |l| l.len += 1,
        |l| l.offset = u64::MAX,
        |l| l.segment = 1,
        |l| l.offset = 0,
    ];
    for change in spoil {
        let (new, mut located) = segment(&store, &[b"first", b"second"]);
        change(&mut located[1]);
        let error = store.adopt(new, &located, Durability::Sync).unwrap_err();
        assert!(matches!(error, StoreError::Claim { .. } | StoreError::Mismatch { .. }), "{error}");
        assert!(!store.contains(&Digest::of(b"first")));
    }
    let (new, _) = segment(&store, &[b"unclaimed"]);
    store.adopt(new, &[], Durability::Sync).unwrap();
    assert!(names_in(&dir.path().join("segments")).is_empty());
}

#[test]
fn a_manifest_without_its_contents_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = ObjectStore::open(dir.path()).unwrap();
    let error = store.put_manifest(&manifest_of(&[b"nowhere"]), Durability::Sync).unwrap_err();
    assert!(matches!(error, StoreError::NoContent(d) if d == Digest::of(b"nowhere")));
    assert!(matches!(store.manifest(&Digest::of(b"x")), Err(StoreError::NoTree(_))));
}

#[test]
fn flipped_and_torn_bytes_name_file_and_digest_and_are_healed_on_re_put() {
    let dir = tempfile::tempdir().unwrap();
    let contents: [&[u8]; 2] = [b"hello", b"world"];
    let manifest = manifest_of(&contents);
    let fill = |store: &ObjectStore| {
        let (new, located) = segment(store, &contents);
        store.adopt(new, &located, Durability::Sync).unwrap();
        store.put_manifest(&manifest, Durability::Sync).unwrap()
    };
    let digest = fill(&ObjectStore::open(dir.path()).unwrap());
    let mut files = Vec::new();
    for part in ["segments", "trees"] {
        for name in names_in(&dir.path().join(part)) {
            files.push(dir.path().join(part).join(name));
        }
    }
    assert_eq!(files.len(), 3);
    for path in files {
        let good = fs::read(&path).unwrap();
        let mut flipped = good.clone();
        // The first byte of a segment is a content's; the middle one is the index's.
        flipped[0] ^= 1;
        let mut middle = good.clone();
        middle[good.len() / 2] ^= 1;
        for bad in [flipped, middle, good[..good.len() - 1].to_vec(), Vec::new()] {
            fs::write(&path, &bad).unwrap();
            let store = ObjectStore::open(dir.path()).unwrap();
            let found = store.manifest(&digest).and_then(|m| {
                m.entries().iter().map(|e| store.read(&e.digest)).collect::<Result<Vec<_>, _>>()
            });
            let error = found.expect_err(&path.display().to_string());
            let text = error.to_string();
            assert!(text.contains("sha256:") && text.contains(path.to_str().unwrap()), "{text}");
            fill(&ObjectStore::open(dir.path()).unwrap());
            assert_eq!(fs::read(&path).unwrap(), good, "{}", path.display());
        }
    }
}

#[test]
fn leftovers_of_dead_processes_are_swept_and_of_living_ones_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = ObjectStore::open(dir.path()).unwrap();
    let living = store.new_segment().unwrap();
    let dead = dir.path().join("segments").join(format!("new-{}-1", u32::MAX));
    fs::write(&dead, b"x").unwrap();
    drop(ObjectStore::open(dir.path()).unwrap());
    assert!(!dead.exists());
    assert!(living.path.exists());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn whatever_is_adopted_reads_back(
        rounds in proptest::collection::vec(
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..6), 1..6),
        limit in 1_usize..4,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let store = ObjectStore::open(dir.path()).unwrap();
        let mut all: Vec<&[u8]> = Vec::new();
        for round in &rounds {
            let contents: Vec<&[u8]> = round.iter().map(Vec::as_slice).collect();
            let (new, located) = segment(&store, &contents);
            store.adopt(new, &located, Durability::Later).unwrap();
            all.extend(contents);
        }
        let digest = store.put_manifest(&manifest_of(&all), Durability::Later).unwrap();
        let later = ObjectStore::open(dir.path()).unwrap();
        prop_assert_eq!(later.manifest(&digest).unwrap(), manifest_of(&all));
        let digests: Vec<Digest> = all.iter().map(|c| Digest::of(c)).collect();
        let distinct: HashSet<&Digest> = digests.iter().collect();
        let batches = later.locate(&digests, limit).unwrap();
        prop_assert!(batches.iter().all(|b| b.files.len() <= limit));
        prop_assert_eq!(batches.iter().map(|b| b.located.len()).sum::<usize>(), distinct.len());
        for content in all {
            prop_assert_eq!(later.read(&Digest::of(content)).unwrap(), content);
        }
    }
}
