// A file of tests that never wait would keep the runner from hearing of them, until it gives up.
import { afterEach } from 'vitest';

const { setTimeout } = globalThis;

afterEach(() => new Promise(resolve => setTimeout(resolve)));
