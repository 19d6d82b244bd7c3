import { assertEquals } from "@std/assert";
import { runsPrograms } from "../../../scripts/dev/test/memory_folder.ts";

const OTHERS = "/dev/vda / ext4 rw,relatime 0 0\nproc /proc proc rw 0 0\n";

for (
  const { title, mounts, runs } of [
    {
      title: "a file system in memory",
      mounts: `${OTHERS}tmpfs /dev/shm tmpfs rw,nosuid,nodev,size=8g 0 0\n`,
      runs: true,
    },
    {
      title: "one that no program may run from",
      mounts: `${OTHERS}tmpfs /dev/shm tmpfs rw,noexec,size=8g 0 0\n`,
      runs: false,
    },
    { title: "none", mounts: OTHERS, runs: false },
  ]
) {
  Deno.test(`runsPrograms() of ${title} is ${runs}`, () => {
    assertEquals(runsPrograms(mounts, "/dev/shm"), runs);
  });
}
