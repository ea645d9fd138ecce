import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    environment: 'jsdom',
    // A page for each file, without loading jsdom for each: half of the time.
    pool: 'vmThreads',
    setupFiles: ['src/__tests__/yielding.ts'],
    include: ['src/__tests__/*.test.ts'],
    // Also where other work shares the processors.
    testTimeout: 30_000
  }
});
