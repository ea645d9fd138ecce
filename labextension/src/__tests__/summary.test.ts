import { describe, expect, it } from 'vitest';

import type { Overview, PendingApproval, RunSummary } from '../lab/messages';
import { approvalKey, askedAbout, shortModel, statusText } from '../lab/summary';

const RUN = {
  id: 'r1',
  live: false,
  model: 'anthropic/claude-sonnet',
  status: 'done',
  stop_reason: 'finished',
  tokens: 1204,
  cost_usd: 0.006
} as RunSummary;

const text = (runs: Partial<RunSummary>[], changes: Partial<Overview> = {}): string => {
  const overview = { model: 'openai/next', approvals: [], waiting: null, ...changes } as unknown;
  return statusText({ ...(overview as Overview), runs: runs.map(run => ({ ...RUN, ...run })) });
};

describe('the status', () => {
  it('is that of the newest run', () => {
    expect(text([{ status: 'error' }, {}])).toBe(
      'ipyagent: anthropic/claude-sonnet · done · 1,204 tok · $0.006'
    );
  });

  it('is that of the one that goes on', () => {
    const live = { live: true, status: 'running', stop_reason: null } as const;
    expect(text([live, {}])).toContain(' · running · ');
  });

  it('of a plan that runs is how far it is', () => {
    const live = { live: true, status: 'running', stop_reason: null } as const;
    const steps = [{ status: 'success' }, { status: 'running' }, { status: 'pending' }];
    const plan = { run_id: 'r1', status: 'running', steps } as NonNullable<Overview['plan']>;
    expect(text([live], { plan })).toContain(' · step 2 of 3 · ');
    expect(text([live], { plan: { ...plan, run_id: 'other' } })).toContain(' · running · ');
    const approvals = [{ run_id: 'r1' }] as Overview['approvals'];
    expect(text([live], { plan, approvals })).toContain(' · waiting for you · ');
  });

  it.each([
    [{ status: 'done', stop_reason: 'max_steps' }, 'partial'],
    [{ status: 'done', stop_reason: 'planned' }, 'planned'],
    [{ status: 'error', stop_reason: 'error' }, 'failed'],
    [{ status: 'cancelled', stop_reason: 'interrupted' }, 'cancelled'],
    [{ status: 'draft', stop_reason: null }, 'waiting for you']
  ] as const)('of %j is %s', (run, word) => {
    expect(text([{ ...run, tokens: 0, cost_usd: null }])).toBe(
      `ipyagent: anthropic/claude-sonnet · ${word}`
    );
  });

  it('says that something waits for the person, whichever run it is of', () => {
    const approvals = [{ run_id: 'other' }] as Overview['approvals'];
    expect(text([RUN], { approvals })).toContain(' · waiting for you · ');
    const waiting = { run_id: 'p' } as Overview['waiting'];
    expect(text([RUN], { waiting })).toContain(' · waiting for you · ');
  });

  it('before the first run names the model that would answer', () => {
    expect(text([])).toBe('ipyagent: openai/next · no runs yet');
    expect(text([], { model: null })).toBe('ipyagent: no runs yet');
  });

  it('never says that anybody is idle', () => {
    expect(text([])).not.toMatch(/idle/i);
  });
});

describe('the name of a model', () => {
  it('is whole where it fits, else loses its provider, and its end', () => {
    expect(shortModel('anthropic/claude-sonnet')).toBe('anthropic/claude-sonnet');
    expect(shortModel('openrouter/deepseek/deepseek-chat-v3')).toBe('deepseek-chat-v3');
    expect(shortModel(`local/${'x'.repeat(60)}`)).toHaveLength(32);
  });
});

describe('an approval that waits', () => {
  const approval = (execution: unknown, run_id = 'r1'): PendingApproval =>
    ({ run_id, approval_id: 'a1', execution }) as PendingApproval;
  const call = { name: 'run_python', arguments: { code: 'secret' } };

  it.each([
    [null, 'a plan'],
    [{ call, question: null }, 'run_python'],
    [{ call, question: { text: 'Which?', choices: [] } }, 'a question']
  ])('on %j is about %s', (execution, words) => {
    expect(askedAbout(approval(execution))).toBe(words);
  });

  it('is not that of another run with the same number', () => {
    expect(approvalKey(approval(null))).not.toBe(approvalKey(approval(null, 'r2')));
  });
});
